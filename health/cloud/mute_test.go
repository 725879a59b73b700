package cloud

import (
	"testing"
	"time"
)

// A unit whose uplink is on the smaller side of a cut inside it cannot agree, and holds no Lease
// though the cloud hears one of its nodes: the others stay for as long as a last verdict counts.
func TestAUnitThatCannotAgree(t *testing.T) {
	r := newRig(t)
	r.pass(10*time.Minute, true)
	r.pass(45*time.Second, false)
	r.lose("a-2", "a-3")
	r.pass(6*time.Minute, false)
	r.listedAre("two of three live behind the cut", "a-2", "a-3")
	r.pass(30*time.Second, true)
	r.listedAre("they agree again", "a-2", "a-3")
	r.back("a-2", "a-3")
	r.pass(2*time.Minute, true)
	r.listedAre("all are heard")
	r.pass(45*time.Second, false)
	r.lose("a-2", "a-3")
	r.pass(7*time.Minute, false)
	r.listedAre("they never agree again, or the daemons are gone")
}
