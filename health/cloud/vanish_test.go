package cloud

import (
	"testing"
	"time"
)

// A Lease that is gone ends no shield at once: somebody may have taken it away, or its label.
func TestALeaseThatVanishes(t *testing.T) {
	r := shielded(t)
	r.world.setLease(r.now, "a", renewal{}, true)
	r.pass(time.Minute, false)
	r.listedAre("it is gone", "a-1", "a-2", "a-3")
	r.pass(20*time.Second, true)
	r.listedAre("it is there again", "a-1", "a-2", "a-3")
	r.pass(2*time.Minute, true)
	r.listedAre("and its nodes are heard", "a-2")
	r.world.setLease(r.now, "a", renewal{}, true)
	r.podsAre("it is gone again", "kept=True ")
	r.pass(125*time.Second, false)
	r.listedAre("and stays so")
	r.podsAre("and stays so", "kept=False ")
}
