package cloud

import (
	"testing"
	"time"
)

// A unit that lost its uplink while nothing was told, or of Nodes or Leases alone, is held when it is
// told at last, though its last renewal and the loss are seen at once: it counted as silent meanwhile,
// and who is held then stays so.
func TestWhatIsToldLate(t *testing.T) {
	for name, deaf := range map[string]struct{ nodes, leases bool }{"all": {true, true}, "nodes": {nodes: true}, "leases": {leases: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pass(10*time.Minute, true)
			renewed := renewal{mark: "late", taken: r.now.Add(10 * time.Second)}
			lose := func() { r.lose("a-1", "a-2", "a-3") }
			if !deaf.leases {
				r.pass(10*time.Second, true)
			}
			r.pass(time.Minute, false)
			if !deaf.nodes {
				lose()
			}
			r.pass(3*time.Minute, false)
			if deaf.nodes {
				lose()
			}
			if deaf.leases {
				r.of["a"] = renewed
				r.world.setLease(r.now, "a", renewed, false)
			}
			for range 50 {
				r.pass(time.Minute, false)
				r.listedAre("it has no uplink", "a-1", "a-2", "a-3")
			}
		})
	}
}

// An API server whose clock is behind by more than a unit may be silent says nothing false by it.
func TestAClockThatIsBehind(t *testing.T) {
	r := newRig(t)
	for range 30 {
		r.of["a"] = renewal{mark: r.now.String(), taken: r.now.Add(-time.Minute)}
		r.world.setLease(r.now, "a", r.of["a"], false)
		r.pass(10*time.Second, false)
		r.listedAre("it is heard")
	}
}
