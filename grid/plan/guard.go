package plan

import (
	"fmt"
	"maps"
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
	// The grace counts from then on. Zero is for who watches nothing: what
	// children say is all there is.
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
// with the time (UnitGone); no time runs while all stays as it is (lacks.holds).
func (x *Index) leftovers(g *tracked, p *Plan, s *state, guard Guard, now time.Time) {
	var gone []Step
	alone := map[string]string{} // units, by children
	for unit, list := range g.children {
		there := x.units.of(g.unitKey)[unit] != nil
		kept := g.live(unit)
		for _, c := range list {
			if there && c == kept {
				if !c.there && c.left.IsZero() {
					c.came = g.came(x.units.of(g.unitKey)[unit])
				}
				c.there, c.left = true, time.Time{}
				continue
			}
			if !g.made(c) || deleting(c.obj) {
				if there && c.ownerKind == "" {
					alone[c.ref.Name] = unit
				}
				continue
			}
			if s.holds {
				c.left = time.Time{}
				gone = append(gone, c.stays(unit, x.stays(g, c)))
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
	g.share(guard, gone, p, s, now)
	p.Steps = append(p.Steps, gone...)
	g.leaveAlone(p, alone)
}

// leaveAlone says which objects, of which units, only bear the labels, and were never
// taken over, beside a child.
func (g *tracked) leaveAlone(p *Plan, units map[string]string) {
	if len(units) == 0 {
		return
	}
	list := slices.Sorted(maps.Keys(units))
	text := fmt.Sprintf("%s %s bears the labels of unit %s, which has another child, and is left alone", g.kind.Child, list[0], units[list[0]])
	if more := len(list) - 1; more > 0 {
		text += ", as " + count(int64(more), "more is", "more are")
	}
	p.Notes = append(p.Notes, Event{Warning: true, Reason: "LeftAlone", Message: text + "; take the labels away, or delete it"})
}

// stays is the step of a child that is kept though its unit is gone.
func (c *child) stays(unit, why string) Step {
	step := Step{Unit: unit, Kind: c.ref.Kind, Name: c.ref.Name, Action: Hold, Why: why, live: true, Version: c.version, Size: c.size()}
	step.Ready, _ = c.progress()
	return step
}

func leftover(unit string, c *child, why string, guard Guard, now time.Time, p *Plan) Step {
	step := c.stays(unit, "")
	_, marked := c.goneSince()
	gone := c.gone(guard, now)
	step.brief = c.brief(guard.Grace)
	switch left := guard.Grace - gone; {
	case !marked:
		step.Unmarked = true
		step.Why = fmt.Sprintf("%s; it is removed after %s", why, guard.Grace)
	case left > 0:
		p.requeue(left)
		step.Why = fmt.Sprintf("%s; it is removed %s", why, atTime(now.Add(left)))
	default:
		step.Action, step.Why = Remove, fmt.Sprintf("%s, since %s", why, now.Add(-gone).UTC().Format(time.RFC3339))
	}
	return step
}

// gone is for how long the child of a unit that is gone counts as such: the
// grace passes by what the child says and by what was seen here. Whoever may
// write to the child may write the first, and the wall clock that it counts by
// may be set; the second is monotonic, as the times are that plans are made at.
// A mark that is yet to come is not believed.
func (c *child) gone(guard Guard, now time.Time) time.Duration {
	if c.left.IsZero() {
		c.left = now
	}
	seen := min(now.Sub(c.left), now.Sub(guard.Since))
	switch mark, _ := c.goneSince(); {
	case mark.After(now):
		return seen
	case c.there || !guard.Since.IsZero():
		return min(seen, now.Sub(mark))
	default:
		return now.Sub(mark)
	}
}

// share holds back removals beyond the guard's share of all units, one at least, and those
// that follow another removal within the grace. It is for what is removed: what may not be
// written to yet waits for itself alone, and what failed before lets others go first. A
// unit that came and went takes none of it.
func (g *tracked) share(guard Guard, gone []Step, p *Plan, s *state, now time.Time) {
	var due []int
	units, brief := len(p.Steps)+len(gone), 0
	for i, step := range gone {
		switch {
		case step.brief:
			brief++
		case step.Action == Remove && !g.later[step.Name]:
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return
	}
	units -= brief
	most := max(1, int(math.Floor(guard.Share*float64(units))))
	why := fmt.Sprintf("%d of %d units are gone; at most %d are removed at once", len(gone)-brief, units, most)
	if left := guard.Grace - s.sinceRemoval(now); left > 0 {
		p.requeue(left)
		most, why = 0, why+", the next "+atTime(now.Add(left))
	} else {
		at := wholeSecond(now)
		s.removed, p.removedAt = &at, now
		p.StatusFirst = true
		if len(due) > most {
			p.requeue(guard.Grace)
		}
	}
	slices.SortStableFunc(due, func(a, b int) int { return g.failed(gone[a]) - g.failed(gone[b]) })
	for _, i := range due[min(most, len(due)):] {
		gone[i].Action, gone[i].Why = Hold, why
	}
}

// failed is 1 where the last write of such a step failed.
func (g *tracked) failed(s Step) int {
	if g.failures[s.Key()].Text != "" {
		return 1
	}
	return 0
}

// Waiting notes to which children nothing may be written yet, for writes failed or were
// undone.
func (x *Index) Waiting(grid Ref, children map[string]bool) {
	if g := x.grids[grid]; g != nil {
		g.later = children
	}
}
