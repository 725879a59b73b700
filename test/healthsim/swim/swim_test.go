package swim

import (
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

// A quiet unit costs a ping and its answer a period; deaths are declared after a round of all
// at most and the suspicion; who lives is not suspected.
func TestSwim(t *testing.T) {
	r := sim.Run(sim.Config{Nodes: 30, Seed: 1, Warm: time.Minute, Duration: 10 * time.Minute}, New)
	if r.Sent < 1.9 || r.Sent > 2.1 || r.Wrong > 0 {
		t.Errorf("a node sends %.2f messages a second, and %d verdicts are wrong", r.Sent, r.Wrong)
	}
	r = sim.Run(sim.Config{Nodes: 30, Seed: 1, Faults: sim.MustFaults("crash"), Warm: time.Minute, Duration: 3 * time.Hour}, New)
	if s := suspicion(5); len(r.Detected) < 20 || r.Missed > 0 || r.Wrong > 0 || r.Quantile(0) < s || r.Quantile(1) > s+10*time.Second {
		t.Errorf("%d deaths, %d not declared, %d verdicts wrong; after %s to %s", len(r.Detected), r.Missed, r.Wrong, r.Quantile(0), r.Quantile(1))
	}
}
