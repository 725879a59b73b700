package cloud

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// By no word of a member that does not speak for the unit ends a shield, nor by that a verdict is taken
// away, before it is lost as after: also where that is done again as soon as who speaks wrote anew.
func TestNobodyElseEndsAShield(t *testing.T) {
	const well = "yes=3 no=0 of=3 exact=true cut=true"
	for name, said := range map[string][2]string{
		"a verdict alone":            {"false", well + " by=a-1"},
		"none":                       {"", well + " by=a-1"},
		"nothing at all":             {"", "by=a-2"},
		"with evidence":              {"false", "yes=0 no=2 of=3 exact=true by=a-2"},
		"well, and not cut":          {"true", "yes=3 no=0 of=3 exact=true cut=false by=a-2"},
		"no majority, by who speaks": {"false", "yes=1 no=1 of=3 exact=true by=a-1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pass(time.Minute, true)
			r.say("a-3", "true", well)
			r.pass(2*time.Second, true)
			r.on.pods["a-3"] = []*corev1.Pod{pod("app", "True", "True")}
			for i := range 20 {
				if i == 2 {
					r.lose("a-3")
				}
				r.say("a-3", said[0], said[1])
				r.pass(8*time.Second, true)
				r.listedAre("somebody else wrote", "a-3")
				if got := readies(r.on.pods["a-3"]); got != "app=True " || t.Failed() {
					t.Fatalf("pods are %s, %d", got, i)
				}
				r.say("a-3", "true", well)
				r.pass(2*time.Second, true)
			}
			r.say("a-3", said[0], said[1])
			r.pass(446*time.Second, true)
			r.listedAre("who speaks says no more", "a-3")
			r.pass(5*time.Second, true)
			r.listedAre("and has not for long")
			if got := readies(r.on.pods["a-3"]); got != "app=False " {
				t.Error(got)
			}
		})
	}
}

// A node is not well by the word of a member that does not speak for the unit, nor by a verdict that is
// not what it rests on.
func TestNobodyElseShields(t *testing.T) {
	const dead = "yes=0 no=2 of=3 exact=true"
	for name, by := range map[string]string{
		"with evidence":   "yes=3 no=0 of=3 exact=true cut=true by=a-2",
		"a verdict alone": dead + " by=a-1",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pass(10*time.Minute, true)
			r.lose("a-3")
			r.say("a-3", "true", by)
			r.pass(10*time.Second, true)
			r.listedAre("nobody voted on it anew")
			r.say("a-3", "false", dead)
			r.pass(5*time.Second, true)
			r.say("a-3", "true", by)
			r.pass(10*time.Second, true)
			r.listedAre("it is dead")
			r.tainted("a-3", evicting, true)
		})
	}
}

// What a unit said counts however often its Lease was another's since, and where that is told later.
func TestWhatCountedCounts(t *testing.T) {
	r := newRig(t)
	r.hold("a-2", time.Minute)
	r.say("a-3", "true", "yes=3 no=0 of=3 exact=true cut=true by=a-1")
	r.hold("a-2", 2*time.Second)
	r.listedAre("it is not known yet who leads")
	r.hold("a-1", 2*time.Second)
	r.listedAre("it is", "a-3")
	r.lose("a-3")
	r.hold("a-2", 20*time.Second)
	r.hold("a-4", 20*time.Second)
	r.listedAre("two led since", "a-3")
}
