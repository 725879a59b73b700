package grid

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// reasons are how actions are recorded.
var reasons = []struct {
	action  plan.Action
	warning bool
	reason  string
	text    string
}{
	{plan.Create, false, "Created", "made the child of %s"},
	{plan.Update, false, "Updated", "brought the child of %s in line"},
	{plan.Adopt, false, "Adopted", "took over the child of %s"},
	{plan.Release, true, "Released", "let go of the child of %s: its label names the grid no longer"},
	{plan.Hold, true, "UnitGone", "%s has no node any more; its workload is kept for now"},
	{plan.Remove, true, "Removed", "removed the workload of %s, which has had no node for long"},
}

// aboutGrid is what an Event about a grid is about.
func aboutGrid(grid plan.Ref, uid string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: apiv1.Group + "/" + apiv1.Version, Kind: grid.Kind, Namespace: grid.Namespace, Name: grid.Name, UID: types.UID(uid)}
}

// record writes Events and the log, one line for many units.
func (c *Controller) record(j *job) {
	grid := j.plan.Grid
	about := aboutGrid(grid, j.plan.UID)
	event := func(warning bool, reason, message string) {
		eventType := corev1.EventTypeNormal
		if warning {
			eventType = corev1.EventTypeWarning
		}
		c.cfg.Events.Event(about, eventType, reason, message)
	}
	for _, d := range reasons {
		if units := j.units[d.action]; len(units) > 0 {
			slices.Sort(units)
			of := "unit " + plan.Short(units)
			if units[0] == "" {
				of = "all units" // a Service
			}
			c.cfg.Log.Info("children of a grid", obs.KeyGrid, grid.String(), obs.KeyAction, string(d.action), obs.KeyUnits, len(units), obs.KeyWhich, plan.Short(units))
			event(d.warning, d.reason, fmt.Sprintf(d.text, of))
		}
	}
	if j.wrote {
		j.events = append(j.events, j.plan.Events...)
	}
	for _, e := range j.events {
		event(e.Warning, e.Reason, e.Message)
	}
	if j.failed > 0 {
		c.cfg.Log.Error("could not bring a grid in line; trying again", obs.KeyGrid, grid.String(), obs.KeyWrites, j.failed, obs.KeyErr, plan.Cut(j.why.Error()))
		event(true, "Failed", fmt.Sprintf("%d writes failed, and are tried again: %v", j.failed, j.why))
	}
}
