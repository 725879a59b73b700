package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// restFor is how long nothing may change before a cluster is taken to be at
// rest: longer than an agent's batches and looks.
const restFor = 3 * time.Second

// holdBound is how long an agent holds anything after an outage.
const holdBound = 90 * time.Second

// ended is what a node was when the last step was judged.
type ended struct {
	reading reading
	state   []string
	usage   map[string]int
}

// rest waits until the cluster does not move any more, and returns what it is
// then. In order is not at rest yet: what an agent holds after an outage is
// still to be let go, and Envoy fetches what is dialled.
func (s *Soak) rest(ctx context.Context) (before map[string]*ended, lines []string, err error) {
	within := holdBound + patience
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	start := time.Now()
	if err := s.stayPoliced(ctx); err != nil {
		return nil, nil, err
	}
	var since time.Time
	err = wait.Until(ctx, func() error {
		if err := s.inOrder(ctx); err != nil {
			return err
		}
		now, seen, err := s.readAll(ctx)
		if err != nil {
			return err
		}
		moved := unlikeBefore(before, now, lines, seen)
		before, lines = now, seen
		if len(moved) > 0 {
			since = time.Now()
			return fmt.Errorf("it moves: %s", moved)
		}
		if quiet := time.Since(since); quiet < restFor {
			return fmt.Errorf("it is at rest for %s only", quiet.Round(time.Millisecond))
		}
		return nil
	})
	if err != nil {
		return nil, nil, &Violation{Judge: "convergence", Text: fmt.Sprintf("not at rest after %s: %v", within, err)}
	}
	s.say("at rest after %s", time.Since(start).Round(time.Millisecond))
	return before, lines, nil
}

// stayPoliced makes a NetworkPolicy where an agent of two paths reckons with those
// that steps made and removed, for ten minutes more: one that starts afresh knows
// nothing of them.
func (s *Soak) stayPoliced(ctx context.Context) error {
	for _, node := range s.twoPaths() {
		r, err := report.Ask(ctx, s.c.Nodes[node].Dir+"/agent.sock")
		if err != nil {
			return err
		}
		if r.Policies && !r.PoliciesUnknown {
			_, err := s.networkPolicy(ctx, []string{"stays", "nobody"})
			return err
		}
	}
	return nil
}

// readAll reads every node, and what the API server has.
func (s *Soak) readAll(ctx context.Context) (map[string]*ended, []string, error) {
	list := map[string]*ended{}
	for _, node := range s.world.Nodes() {
		if err := s.letGo(ctx, node); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", node, err)
		}
		list[node] = &ended{}
	}
	if err := s.each(func(node string) (err error) {
		s.dialAll(node)
		e := list[node]
		if e.usage, err = usage(s.c.Nodes[node]); err != nil {
			return err
		}
		e.reading, err = read(s.c.Nodes[node])
		return err
	}); err != nil {
		return nil, nil, err
	}
	o, err := s.objects(ctx)
	if err != nil {
		return nil, nil, err
	}
	return list, o.lines(), nil
}

// unlikeBefore are the differences between two readings of everything.
func unlikeBefore(before, now map[string]*ended, lines, seen []string) (moved []string) {
	if before == nil {
		return []string{"it was read once only"}
	}
	for node, e := range now {
		for _, d := range exactly(before[node].reading, e.reading) {
			moved = append(moved, node+": "+d)
		}
	}
	moved = append(moved, exactly(reading{"objects": lines}, reading{"objects": seen})...)
	slices.Sort(moved)
	return moved
}

// exactly are the lines that came and went.
func exactly(was, is reading) (list []string) {
	for facet := range is {
		for _, line := range was[facet] {
			if !slices.Contains(is[facet], line) {
				list = append(list, facet+": went "+short(line))
			}
		}
		for _, line := range is[facet] {
			if !slices.Contains(was[facet], line) {
				list = append(list, facet+": came "+short(line))
			}
		}
	}
	return list
}

// obeys reports why an agent, or its Envoy, does not do what the cloud says.
func (s *Soak) obeys(ctx context.Context, node string) error {
	r, err := report.Ask(ctx, s.c.Nodes[node].Dir+"/agent.sock")
	switch {
	case err != nil:
		return err
	case r.Error != "":
		return errors.New(r.Error)
	case r.Source != "live":
		return fmt.Errorf("it serves from the %s", r.Source)
	case r.APIServer == nil || len(r.APIServer.Held) > 0:
		return fmt.Errorf("it does not believe the API server: %s", asJSON(r.APIServer))
	case len(r.Envoys) != 1 || len(r.Nacks) > 0:
		return fmt.Errorf("it has the Envoys %s, which refuse %s", asJSON(r.Envoys), asJSON(r.Nacks))
	}
	if r.Paths != nil {
		return s.takesPaths(node, r)
	}
	return nil
}

// letGo reports whether an agent still holds something after an outage.
func (s *Soak) letGo(ctx context.Context, node string) error {
	r, err := report.Ask(ctx, s.c.Nodes[node].Dir+"/agent.sock")
	if err != nil {
		return err
	}
	switch {
	case r.Held != nil:
		return fmt.Errorf("it holds %s", asJSON(r.Held))
	case r.EnvoyAbsent:
		return errors.New("the kernel serves for its Envoy")
	case r.PoliciesUnknown:
		return errors.New("it does not know whether there are NetworkPolicies")
	}
	if recorded(node) {
		return errors.New("the outage is not over for it")
	}
	return nil
}
