package capture

import (
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// A client that another address of the Service led elsewhere stays on this node where
// internalTrafficPolicy wants it: here the node port has brought it to far.
func TestKernelAffinityStaysOnTheNode(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	door := plan.KernelFrontend{Frontend: tcp("0.0.0.0:30080"), Tiers: tiers(false, "far"), Affinity: time.Hour, Outside: &plan.KernelOutside{}}
	l.put(t, door)
	if name, _ := once(t, l.a, "", "192.0.2.1:30080"); name != "far" {
		t.Fatalf("the node port is answered by %s", name)
	}
	door.Tiers = tiers(false, "b", "far")
	l.put(t, door, plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, "b"), Here: true, Affinity: time.Hour})
	for range 3 {
		if name, _ := once(t, l.a, "", "10.96.0.1:80"); name != "b" {
			t.Errorf("internalTrafficPolicy Local: %s answers", name)
		}
		if name, _ := once(t, l.a, "", "192.0.2.1:30080"); name != "far" {
			t.Errorf("by the node port, which it kept, %s answers", name)
		}
	}
}
