package plan

import (
	"slices"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// mostFailed bounds the units that a status names.
const mostFailed = 100

// What stopped a rollout is remembered in the status: a unit that goes out of sight has not
// become well by that, and who takes over knows no refusal of before.

// failedBefore reports whether the change failed in a unit when it was looked at last.
func failedBefore(r *apiv1.RolloutStatus, unit string) bool {
	return r != nil && slices.Contains(r.Failed, unit)
}

// lost are units that failed and have no node any more, while their child is kept.
func (g *tracked) lost(p *Plan, r *apiv1.RolloutStatus) (units []string) {
	if r == nil {
		return nil
	}
	for _, unit := range r.Failed {
		there := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Unit == unit })
		if c := g.live(unit); !there && c != nil && g.made(c) {
			units = append(units, unit)
		}
	}
	return units
}

// namesOf are the units of steps, and others, as the status has them.
func namesOf(p *Plan, steps []int, others []string) []string {
	units := slices.Clone(others)
	for _, i := range steps {
		units = append(units, p.Steps[i].Unit)
	}
	slices.Sort(units)
	return units[:min(mostFailed, len(units))]
}
