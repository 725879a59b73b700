package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Guard holds back removals: a lost or mistyped label must not delete a site
// at once.
type Guard struct {
	Grace time.Duration // for a unit without nodes, and between two removals
	Share float64       // most of a grid's units that are removed at once
	// Since is when somebody began to watch the Nodes: a unit may have been back
	// before, and what a child says since when it is gone may be older than that.
	// The grace counts from then on.
	Since time.Time
}

// DefaultGuard is five minutes, and a tenth of the units at once.
func DefaultGuard() Guard { return Guard{Grace: 5 * time.Minute, Share: 0.1} }

// Validate names the first flag that makes no sense.
func (g Guard) Validate() error {
	if g.Grace < 0 {
		return fmt.Errorf("--removal-grace %s: must not be negative", g.Grace)
	}
	if g.Share < 0 || g.Share > 1 {
		return fmt.Errorf("--removal-share %g: must be between 0 and 1", g.Share)
	}
	return nil
}

// leftovers adds the children whose unit has no node any more, and those that
// a unit has too many of. The first time one is seen it is to be annotated
// with the time (UnitGone).
func (x *Index) leftovers(g *tracked, p *Plan, s *state, guard Guard, now time.Time) {
	var gone []Step
	for unit, list := range g.children {
		there := x.units.of(g.unitKey)[unit] != nil
		kept := g.live(unit)
		for _, c := range list {
			if there && c == kept {
				c.sight = sight{there: true}
				continue
			}
			// What only bears the labels, and was never taken over, is left alone.
			if c.ownerKind == "" || !g.owns(c) || deleting(c.obj) {
				continue
			}
			why := fmt.Sprintf("no node has %s=%s any more", g.unitKey, unit)
			if there {
				why = fmt.Sprintf("unit %s has child %s", unit, kept.ref.Name)
			}
			gone = append(gone, leftover(unit, c, why, guard, now, p))
		}
	}
	slices.SortFunc(gone, func(a, b Step) int { return strings.Compare(a.Name, b.Name) })
	guard.share(gone, len(p.Steps), p, s, now)
	p.Steps = append(p.Steps, gone...)
}

func leftover(unit string, c *child, why string, guard Guard, now time.Time, p *Plan) Step {
	step := Step{Unit: unit, Kind: c.ref.Kind, Name: c.ref.Name, Action: Hold, live: true, Version: c.version}
	step.Ready, _ = c.progress()
	_, marked := c.goneSince()
	since := c.gone(now)
	if since.Before(guard.Since) {
		since = guard.Since
	}
	switch left := guard.Grace - now.Sub(since); {
	case !marked:
		step.Unmarked = true
		step.Why = fmt.Sprintf("%s; it is removed after %s", why, guard.Grace)
	case left > 0:
		p.requeue(left)
		step.Why = fmt.Sprintf("%s; it is removed %s", why, atTime(since.Add(guard.Grace)))
	default:
		step.Action, step.Why = Remove, fmt.Sprintf("%s, since %s", why, since.UTC().Format(time.RFC3339))
	}
	return step
}

// gone is since when the child of a unit that is gone counts as such. Whoever
// may write to the child may write the mark: one from before the unit was last
// seen, or that is yet to come, is not believed.
func (c *child) gone(now time.Time) time.Time {
	if c.left.IsZero() {
		c.left = now
	}
	since, _ := c.goneSince()
	if since.After(now) || c.there && since.Before(c.left) {
		return c.left
	}
	return since
}

// share holds back removals beyond the guard's share of all units, one at
// least, and those that follow another removal within the grace.
func (g Guard) share(gone []Step, units int, p *Plan, s *state, now time.Time) {
	due := 0
	for _, step := range gone {
		if step.Action == Remove {
			due++
		}
	}
	if due == 0 {
		return
	}
	most := max(1, int(math.Floor(g.Share*float64(units+len(gone)))))
	why := fmt.Sprintf("%d of %d units are gone; at most %d are removed at once", len(gone), units+len(gone), most)
	if s.removed != nil && now.Sub(s.removed.Time) < g.Grace {
		next := s.removed.Add(g.Grace)
		p.requeue(next.Sub(now))
		most, why = 0, why+", the next "+atTime(next)
	} else {
		at := wholeSecond(now)
		s.removed = &at
		p.StatusFirst = true
		if due > most {
			p.requeue(g.Grace)
		}
	}
	for i := range gone {
		if gone[i].Action != Remove {
			continue
		}
		if most--; most < 0 {
			gone[i].Action, gone[i].Why = Hold, why
		}
	}
}
