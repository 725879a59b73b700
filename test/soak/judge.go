package soak

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/topology"
)

const (
	// grace is how long a node may take from what its agent was told to what
	// Envoy and the kernel do.
	grace = 5 * time.Second
	// lag is how long an agent may know before we do.
	lag = 2 * time.Second
	// longLag is the same after the API server was away: everybody asks again
	// in a time of their own.
	longLag = 40 * time.Second
	// restored is how long after a trouble connections may fail.
	restored = 10 * time.Second
	// listed bounds what a violation tells.
	listed = 8
	// explains bounds of how many nodes and Services it tells what was judged by.
	explains = 3
)

// judge holds everything since the last time against the model.
func (s *Soak) judge() error {
	unseen := s.arrived(markWithin)
	crossings, err := s.borders.take()
	if err != nil {
		return err
	}
	s.countRepairs()
	return errors.Join(unseen, s.judgeThese(s.dials.take(), crossings), s.judgeLogs())
}

func (s *Soak) judgeThese(list []dial, crossings []crossing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	wrong, explained := map[string][]string{}, map[string]bool{}
	answered, failed, last := 0, 0, remembered{}
	for i := range list {
		d := &list[i]
		if d.err == nil {
			answered++
		} else {
			failed++
		}
		s.tally.dialled(d, s.steady)
		if before := last[dialler{d.from, d.frontend()}]; s.forgets(last, d) {
			wrong["affinity"] = append(wrong["affinity"], fmt.Sprintf("%s, and before: %s%s", d, before, s.judgedBy(d)))
		}
		if judge := s.judgeDial(d); judge != "" {
			line, place := d.String()+s.whose(d.answered), len(wrong[judge])
			if question := d.node + " " + d.to.String(); judge == "answers" && len(explained) < explains && !explained[question] {
				line, place = line+s.judgedBy(d), len(explained) // among those that are listed
				explained[question] = true
			}
			wrong[judge] = slices.Insert(wrong[judge], place, line)
		}
	}
	for _, c := range crossings {
		s.tally.crossings++
		if !s.mayCross(c) {
			wrong["borders"] = append(wrong["borders"], c.String())
		}
	}
	s.say("judged %d answers, %d failures and %d crossings", answered, failed, len(crossings))
	return violations(wrong)
}

// whose says on which node a pod is.
func (s *Soak) whose(name string) string {
	for _, p := range s.pods {
		if p.name == name {
			return ", of " + p.node
		}
	}
	return ""
}

// violations is an error for each judge that found something.
func violations(wrong map[string][]string) error {
	var errs []error
	for judge, list := range wrong {
		if len(list) == 0 {
			continue
		}
		text := fmt.Sprintf("%d times:", len(list))
		for _, line := range list[:min(listed, len(list))] {
			text += "\n  " + line
		}
		errs = append(errs, &Violation{Judge: judge, Text: text})
	}
	return errors.Join(errs...)
}

// judgeDial names the judge that objects to a dial; "" for none.
func (s *Soak) judgeDial(d *dial) string {
	switch {
	case d.name && d.err != nil && !s.troubles.Any(d.node, model.Nameless, d.began.Add(-restored), d.ended):
		return "names"
	case d.name:
		return ""
	case d.err == nil && !s.mayAnswer(d):
		return "answers"
	case d.err != nil && d.to == s.steady && !s.troubles.Any(d.node, model.Broken, d.began.Add(-restored), d.ended) && !s.mayBeUnserved(d) && !s.mayBeMoved(d):
		return "failures"
	}
	return ""
}

// judgedBy says by what an answer was judged.
func (s *Soak) judgedBy(d *dial) string {
	why := "\n" + s.history.Explain(s.told[d.node], d.frontend(), s.span(d.node, d.began, d.ended))
	return strings.ReplaceAll(why, "\n", "\n      ")
}

// mayAnswer reports whether who answered may have, by what the node was told.
func (s *Soak) mayAnswer(d *dial) bool {
	for _, p := range s.pods {
		if p.name == d.answered {
			return s.history.Allowed(s.told[d.node], d.frontend(), netip.AddrPortFrom(p.ip, appPort), s.span(d.node, d.began, d.ended))
		}
	}
	return false
}

// mayBeMoved reports whether a node may not have been told yet that its own unit
// was given back to it: after the API server was away that may take a while.
func (s *Soak) mayBeMoved(d *dial) bool {
	return s.history.NodeMay(s.told[d.node], d.node, s.since(d.node, d.began), d.ended, func(n *topology.Node) bool {
		return n.Labels["unit"] != s.world.UnitOf(d.node)
	})
}

// mayCross reports whether what crossed a border may have.
func (s *Soak) mayCross(c crossing) bool {
	if c.other == "" {
		// An agent that does not run puts nothing back.
		since := s.troubles.Before(c.node, model.Absent, c.from, grace)
		return s.troubles.Any(c.node, model.Bare, since, c.to)
	}
	return s.history.AllowedNode(s.told[c.node], c.other, s.span(c.node, c.from, c.to))
}

// span is what counts for what a node did from one time to another.
func (s *Soak) span(node string, from, to time.Time) model.Span {
	span := model.Span{From: s.since(node, from), To: s.heardBy(to)}
	if held := s.troubles.Before(node, model.Deaf|model.Holding, from, grace); s.troubles.Any(node, model.Holding, held, to) {
		span.Held = held
	}
	return span
}

// since is from when on a node's knowledge counts for what it did at a time.
func (s *Soak) since(node string, at time.Time) time.Time {
	return s.troubles.Before(node, model.Deaf, at, grace)
}

// heardBy is until when the API server's news count for what a node did at a time.
func (s *Soak) heardBy(at time.Time) time.Time {
	if s.troubles.Any(cloud, model.Deaf, at.Add(-longLag), at) {
		return at.Add(longLag)
	}
	return at.Add(lag)
}
