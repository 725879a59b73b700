package plan

import (
	"fmt"
	"maps"
	"time"
)

// A kubelet may give its own Node any label, and so each value that it thinks of; the
// child that is made by that has pods for the node, and stays for the grace.
const (
	// newAtOnce is how many units that come within newWithin have their children at
	// once. Of the others a node has to stay in the unit for standing.
	newAtOnce = 10
	newWithin = 5 * time.Minute
	standing  = 30 * time.Second
)

// admit has the children wait of units that have just come, where many did. What was
// there when the grid, or this process, looked first is not new; nor is anything for who
// watches nothing: since is zero then.
func (g *tracked) admit(p *Plan, since, now time.Time) {
	if since.IsZero() || len(p.Steps) == 0 {
		return
	}
	if g.first.IsZero() {
		g.first = now
	}
	waits := false
	for i := range p.Steps {
		step := &p.Steps[i]
		if step.members.seen.IsZero() {
			step.members.seen = now
		}
		if step.Action != Create || g.lets(step, now) {
			continue
		}
		at := step.members.seen.Add(standing)
		p.requeue(at.Sub(now))
		step.Action, step.desired, waits = Wait, nil, true
		step.Why = fmt.Sprintf("%d other units came within %s; its child is made %s, if a node is in it until then", newAtOnce, newWithin, atTime(at))
	}
	if waits {
		p.Notes = append(p.Notes, Event{Warning: true, Reason: "UnitsWait", Message: fmt.Sprintf(
			"more than %d units came within %s; the others have a child once a node has been in them for %s. Nodes that keep changing their label %s do that", newAtOnce, newWithin, standing, g.unitKey)})
	}
}

// lets reports whether a unit may have its child now.
func (g *tracked) lets(step *Step, now time.Time) bool {
	came := g.came(step.members)
	if came.IsZero() || now.Sub(came) >= standing {
		return true
	}
	maps.DeleteFunc(g.let, func(_ string, at time.Time) bool { return now.Sub(at) >= newWithin })
	if _, let := g.let[step.Unit]; let {
		return true
	}
	if len(g.let) >= newAtOnce {
		return false
	}
	if g.let == nil {
		g.let = map[string]time.Time{}
	}
	g.let[step.Unit] = now
	return true
}

// came is when a unit came; zero where it was there before.
func (g *tracked) came(m *members) time.Time {
	if m.seen.After(g.first) && !g.first.IsZero() {
		return m.seen
	}
	return time.Time{}
}

// brief reports whether the child of a unit that is gone was made for one that came and
// went within the grace. Only what was seen here counts: one that was there before
// somebody looked may be a site's.
func (c *child) brief(grace time.Duration) bool {
	made, err := time.Parse(time.RFC3339, value[string](c.obj, "metadata", "creationTimestamp"))
	return err == nil && !c.came.IsZero() && !c.left.IsZero() && c.left.Sub(c.came) < grace && c.left.Sub(made) < grace
}
