package grid_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
)

// running are the images of units' children, one after the other.
func (w *world) running(units ...string) (list string) {
	for _, unit := range units {
		containers := fmt.Sprint(w.at(deployment("till-"+unit), "spec.template.spec.containers"))
		list += containers[strings.Index(containers, "image:")+6:][:2]
	}
	return list
}

const canary = `  templatePool:
    canary: {replicas: 2, selector: {matchLabels: {app: till}}, template: {metadata: {labels: {app: till}}, spec: {containers: [{name: c, image: c1}]}}}
`

// The pause after a wave goes on where the grid changes in what the wave has
// not reached: an unused template that is dropped, a unit that is given another.
func TestThePauseOutlivesOtherChanges(t *testing.T) {
	for name, change := range map[string][2]string{
		"unused template dropped": {"  autoDeleteUnusedTemplate: true\n" + canary, ""},
		"template of a unit":      {"", "  templates: {c: canary}\n" + canary},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("a", "b", "c")(c)
				update(c, inWaves, "pauseSeconds: 60", "pauseSeconds: 600")
			}, func(w *world) {
				w.pass(time.Hour)
				update(w.Cluster, inWaves+change[0], "pauseSeconds: 60", "pauseSeconds: 600", "image: v1", "image: v2")
				w.pass(time.Minute)
				if change[1] != "" {
					update(w.Cluster, inWaves+change[1], "pauseSeconds: 60", "pauseSeconds: 600", "image: v1", "image: v2")
				}
				w.pass(8 * time.Minute)
				if got := w.running("a", "b", "c"); got != "v2v1v1" {
					t.Errorf("within the pause the units run %s", got)
				}
				w.pass(2 * time.Minute)
				if got := w.running("a", "b", "c"); got != "v2v2v1" {
					t.Errorf("after the pause the units run %s", got)
				}
				// What changes the units of the wave itself begins anew, at once.
				update(w.Cluster, inWaves, "pauseSeconds: 60", "pauseSeconds: 600", "image: v1", "image: v3")
				w.soon()
				if got := w.running("a", "b", "c"); got != "v3v2v1" {
					t.Errorf("after another change the units run %s", got)
				}
			})
		})
	}
}

// A unit that was dark in its wave has the whole deadline from when a node is
// ready; a clock of that node that is far off changes nothing.
func TestADarkUnitHasItsDeadline(t *testing.T) {
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.soon()
		w.RollOut(deployment("till-a"))
		w.RollOut(deployment("till-b"))
		w.soon()
		update(w.Cluster, inWaves, "pauseSeconds: 60", "pauseSeconds: 10000", "image: v1", "image: v2")
		w.soon()
		w.ready("node-a", "Unknown")
		w.pass(time.Hour)
		w.ready("node-a", "True")
		w.pass(9 * time.Minute)
		w.noEvent("RolloutStopped")
		w.pass(2 * time.Minute)
		w.event("RolloutStopped: unit a is not ready")
		w.RollOut(deployment("till-a"))
		w.pass(3 * time.Hour)
		w.RollOut(deployment("till-b"))
		w.soon()
		w.event("RolloutComplete: every unit runs what the grid says")
		for _, event := range w.events.All() {
			if strings.HasSuffix(event, ": ") {
				t.Errorf("an Event without words: %s", event)
			}
		}
		w.quiet()
	})
}

// What is said of a unit that the API server refused ends with the unit.
func TestARefusalEndsWithItsUnit(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: refuse("till-south")}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		if status, message := w.condition(till, "Valid"); status != "False" || !strings.Contains(message, "unit south") {
			t.Errorf("Valid is %q: %s", status, message)
		}
		w.Node("node-south", "site", "north")
		w.pass(time.Minute)
		if status, message := w.condition(till, "Valid"); status != "True" {
			t.Errorf("Valid is %q: %s", status, message)
		}
	})
}
