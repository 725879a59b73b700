package cloud

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// back has the cloud hear nodes again.
func (r *rig) back(names ...string) {
	for _, name := range names {
		n := r.n[name]
		n.ready = corev1.ConditionTrue
		r.set(name, n)
	}
}

// dark is a rig whose unit has had no uplink for a quarter of an hour; a-2 has a pod.
func dark(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.on.pods["a-2"] = []*corev1.Pod{pod("kept", "True", "True")}
	r.pass(40*time.Second, true)
	r.pass(45*time.Second, false)
	r.lose("a-1", "a-2", "a-3")
	r.pass(15*time.Minute, false)
	r.listedAre("the unit is dark", "a-1", "a-2", "a-3")
	return r
}

// A unit that is heard again renews its Lease at once; its kubelets and its votes take longer.
// Until then its nodes stay: what it said of them is as old as their silence.
func TestAUnitIsHeardAgain(t *testing.T) {
	for name, begin := range map[string]func(*rig) *rig{
		"by the same controller": func(r *rig) *rig { return r },
		"by another one":         (*rig).restart,
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(dark(t))
			r.pass(20*time.Second, true)
			r.listedAre("it is heard again", "a-1", "a-2", "a-3")
			r.back("a-1")
			r.say("a-3", "true", "yes=2 no=0 of=3 exact=true cut=true")
			r.pass(3*time.Minute, true)
			r.listedAre("one is heard, one is voted well", "a-2", "a-3")
			r.pass(4*time.Minute, true)
			r.podsAre("nobody said anything of it", "kept=True ")
			r.say("a-3", "true", "yes=2 no=0 of=3 exact=true cut=true round=2")
			r.pass(40*time.Second, true)
			r.listedAre("nobody agreed on it for long", "a-3")
			r.podsAre("nobody agreed on it for long", "kept=False ")
		})
	}
}

// What was voted before the silence gives up nobody who was kept in it; what is voted after does.
func TestADeathBeforeTheSilence(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.say("a-3", "false", "yes=0 no=2 of=3 exact=true")
	r.pass(45*time.Second, false)
	r.lose("a-1", "a-2", "a-3")
	r.pass(30*time.Second, false)
	r.pass(10*time.Second, true)
	r.listedAre("it is heard again", "a-1", "a-2", "a-3")
	r.say("a-3", "false", "yes=0 no=2 of=3 exact=true round=2")
	r.pass(2*time.Second, true)
	r.listedAre("and says it again", "a-1", "a-2")
}

// A silence that is shorter than Kubernetes' patience ends before the cloud misses the nodes.
func TestAUnitIsHeardAgainBeforeItsNodesAreMissed(t *testing.T) {
	r := newRig(t)
	r.pass(10*time.Minute, true)
	r.pass(38*time.Second, false)
	r.pass(5*time.Second, true)
	r.on.pods["a-2"] = []*corev1.Pod{pod("kept", "True", "True")}
	r.lose("a-2", "a-3")
	r.pass(30*time.Second, true)
	r.listedAre("its nodes are missed now", "a-1", "a-2", "a-3")
	r.podsAre("they are missed now", "kept=True ")
	r.back("a-2", "a-3")
	r.pass(2*time.Minute, true)
	r.listedAre("they are heard")
}
