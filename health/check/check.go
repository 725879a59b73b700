package check

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// Target is a node that is to be checked.
type Target struct {
	Node string
	Addr netip.Addr // its InternalIP; what is not valid cannot be checked
	// Spoke is where it spoke from a moment ago, if that is none of its own: it is looked for
	// there, too, and who is not seen at either is not known, for it lives.
	Spoke netip.Addr
}

// Checker checks nodes. Several rounds may be under way at once.
type Checker struct {
	cfg     Config
	probes  []weighted
	metrics *metrics

	mu      sync.Mutex
	details map[string]map[string]Detail // node -> probe
}

// weighted is a probe with its flag's values, that fit into Config.Within.
type weighted struct {
	Probe
	name string
	Plugin
}

// Detail is what a probe found of a node the last time.
type Detail struct {
	Node, Probe string
	At          time.Time
	Well        bool
	// Err is why not, or what is to be known though it is well; empty if nothing.
	Err string
	// Unknown is that nothing may be concluded, for the reason that Err has.
	Unknown bool
}

// New makes a checker of a Config that is valid. Where no probe is on, Ping is.
func New(cfg Config, log *slog.Logger, r prometheus.Registerer) (*Checker, error) {
	if len(cfg.plugins()) == 0 {
		cfg.Ping.On = true
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("node checks: %w", err)
	}
	c := &Checker{cfg: cfg, metrics: newMetrics(r), details: map[string]map[string]Detail{}}
	for _, k := range cfg.plugins() {
		w := weighted{k.build(&cfg), k.name, *k.of(&cfg)}
		if each := cfg.Within / time.Duration(w.Attempts); each < w.Timeout {
			log.Info("attempts of a node check take less than its flag says, for all are to end in time",
				obs.KeyFlag, "--"+k.flag, obs.KeyWhy, fmt.Sprintf("%d attempts of %s each, in %s", w.Attempts, each, cfg.Within))
			w.Timeout = each
		}
		c.probes = append(c.probes, w)
	}
	return c, nil
}

// Round checks nodes, all at once as far as Config.Parallel goes, and returns who is well.
// Who is not in the answer, of that one nothing was found out. It returns when its context
// ends, with what is known by then.
func (c *Checker) Round(ctx context.Context, targets []Target) map[string]bool {
	defer c.metrics.round(time.Now())
	c.forget(time.Now())
	room := make(chan struct{}, c.cfg.Parallel)
	var all sync.WaitGroup
	var mu sync.Mutex
	well := make(map[string]bool, len(targets))
	for _, t := range targets {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-room }()
			if ok, known := c.check(ctx, t); known {
				mu.Lock()
				defer mu.Unlock()
				well[t.Node] = ok
			}
		})
	}
	all.Wait()
	return well
}

// check has all probes look at a node at once.
func (c *Checker) check(ctx context.Context, t Target) (well, known bool) {
	if !t.Spoke.IsValid() {
		found := c.look(ctx, t)
		c.note(t.Node, found)
		return c.score(found)
	}
	var there []finding
	var all sync.WaitGroup
	all.Go(func() { there = c.look(ctx, Target{Node: t.Node, Addr: t.Spoke}) })
	found := c.look(ctx, t)
	all.Wait()
	well, _ = c.score(found)
	if !well {
		if well, _ = c.score(there); well {
			found = there
		}
	}
	if !well { // what it spoke from may be a router, which has no kubelet
		for i, f := range found {
			if f.verdict == isNot {
				found[i] = finding{isUnknown, fmt.Sprintf("it spoke from %s a moment ago, and is seen neither there nor at its own address: %s", t.Spoke, f.why)}
			}
		}
	}
	c.note(t.Node, found)
	return well, well
}

// look is what all probes find of a node.
func (c *Checker) look(ctx context.Context, t Target) []finding {
	within, cancel := context.WithTimeout(ctx, c.cfg.Within)
	defer cancel()
	found := make([]finding, len(c.probes))
	var all sync.WaitGroup
	for i, p := range c.probes {
		all.Go(func() { found[i] = p.look(ctx, within, t) })
	}
	all.Wait()
	return found
}

// score is what follows. What is known by some probes is enough: a node that has its score is
// well, and one that cannot reach it any more is not.
func (c *Checker) score(found []finding) (well, known bool) {
	score, open := 0.0, 0.0
	for i, f := range found {
		switch f.verdict {
		case isWell:
			score += 100 * c.probes[i].Weight
		case isUnknown:
			open += 100 * c.probes[i].Weight
		case isNot:
		}
	}
	switch {
	case reaches(score, c.cfg.ScoreLine):
		return true, true
	case !reaches(score+open, c.cfg.ScoreLine):
		return false, true
	}
	return false, false
}

// Details are what each probe found last of each node, sorted; for people.
func (c *Checker) Details() (list []Detail) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.details {
		for _, d := range of {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b Detail) int {
		return strings.Compare(a.Node+"\x00"+a.Probe, b.Node+"\x00"+b.Probe)
	})
	return list
}

// kept is how long it is told what was found of a node that is not looked at any more.
const kept = 10 * time.Minute

func (c *Checker) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, of := range c.details {
		for _, d := range of {
			if now.Sub(d.At) > kept {
				delete(c.details, node)
			}
		}
	}
}

func (c *Checker) note(node string, found []finding) {
	now := time.Now()
	of := make(map[string]Detail, len(found))
	for i, f := range found {
		d := Detail{Node: node, Probe: c.probes[i].name, At: now, Well: f.verdict == isWell, Unknown: f.verdict == isUnknown, Err: f.why}
		of[d.Probe] = d
		c.metrics.probed(d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.details[node] = of
}
