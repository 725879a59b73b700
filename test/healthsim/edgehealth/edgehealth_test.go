package edgehealth

import (
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

// Every node dials every other each 10 s, and tells it each 60 s; a death is declared after
// the check, the exchange and the vote, and not where the unit is cut in halves.
func TestEdgeHealth(t *testing.T) {
	const n = 30
	r := sim.Run(sim.Config{Nodes: n, Seed: 1, Warm: time.Minute, Duration: 10 * time.Minute}, New)
	if want := 2 * (n - 1) * (0.1 + 1.0/60); r.Sent < 0.95*want || r.Sent > 1.05*want || r.Wrong > 0 {
		t.Errorf("a node sends %.2f messages a second, want %.2f; %d verdicts are wrong", r.Sent, want, r.Wrong)
	}
	r = sim.Run(sim.Config{Nodes: n, Seed: 1, Faults: sim.MustFaults("crash"), Warm: 3 * time.Minute, Duration: 3 * time.Hour}, New)
	if len(r.Detected) < 20 || r.Missed > 0 || r.Wrong > 0 || r.Quantile(0) < 10*time.Second || r.Quantile(1) > 90*time.Second {
		t.Errorf("%d deaths, %d not declared, %d verdicts wrong; after %s to %s", len(r.Detected), r.Missed, r.Wrong, r.Quantile(0), r.Quantile(1))
	}
	if r = sim.Run(sim.Config{Nodes: n, Seed: 1, Faults: sim.MustFaults("halves"), Warm: 3 * time.Minute, Duration: time.Hour}, New); r.Wrong > 0 {
		t.Errorf("in halves: %d verdicts", r.Wrong)
	}
}
