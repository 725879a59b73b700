package cloud

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/health/shield"
)

// hidden has what who speaks for the unit says of a node overwritten by another member before it is looked.
func (r *rig) hidden(name, verdict, evidence string) {
	r.say(name, verdict, evidence)
	r.say(name, map[string]string{"true": "false", "false": "true"}[verdict], "yes=1 no=1 of=3 exact=true by=a-2")
}

// Who overwrites each vote of who speaks for the unit, before it is looked, changes nothing by it.
func TestWhatIsOverwrittenCounts(t *testing.T) {
	r := newRig(t)
	r.pass(10*time.Minute, true)
	r.hidden("a-3", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.pass(2*time.Second, true)
	r.listedAre("it is cut", "a-3")
	r.lose("a-3")
	for range 5 {
		r.pass(time.Minute, true)
		r.listedAre("it is well", "a-3")
		r.hidden("a-3", "true", "yes=3 no=0 of=3 exact=true cut=true")
	}
	r.hidden("a-3", "false", "yes=0 no=2 of=3 exact=true")
	r.pass(20*time.Second, true)
	r.listedAre("it is dead")
	r.tainted("a-3", evicting, true)
}

// A vote of which it is told later who speaks for the unit waits for that, whoever wrote over it since: as
// long as it is fresh. No more of them wait than the unit has nodes.
func TestWhatIsOverwrittenWaits(t *testing.T) {
	for after, want := range map[time.Duration][]string{time.Second: {"a-3"}, 2 * time.Minute: {"a-3"}, 3 * time.Minute: nil} {
		r := newRig(t)
		r.pass(10*time.Minute, true)
		r.hold("a-1", time.Second)
		r.lose("a-3")
		for i := range 100 {
			r.say("a-3", "false", fmt.Sprintf("yes=1 no=2 of=3 exact=true by=b-%d", i))
		}
		r.say("a-3", "true", "yes=3 no=0 of=3 exact=true by=a-2")
		for i := range 100 {
			r.say("a-3", fmt.Sprint(i%2 == 0), fmt.Sprintf("yes=1 no=2 of=3 exact=true by=a-3 view=%d", i))
		}
		r.hold("a-1", after)
		r.listedAre("it is not told who leads")
		if waits := r.world.nodes["a-3"].past.Waits; len(waits) > 3 {
			t.Errorf("%d wait: %+v", len(waits), waits)
		}
		r.hold("a-2", time.Second)
		r.listedAre(fmt.Sprintf("it is, %s later", after), want...)
	}
}

// Nobody decides about a Node in no unit, and so what is written of it waits for nothing; nor does what nobody's name
// is at.
func TestWhatWaitsIsBounded(t *testing.T) {
	r := newRig(t)
	r.pass(time.Minute, true)
	r.set("lone", node{uid: "lone", ready: corev1.ConditionTrue})
	for i := range 1000 {
		r.say("lone", "true", fmt.Sprintf("yes=3 no=0 of=3 by=x-%d", i))
		r.say("a-3", fmt.Sprint(i%2 == 0), "nonsense by=a-2")
	}
	for _, name := range []string{"lone", "a-3"} {
		if waits := r.world.nodes[name].past.Waits; len(waits) > 0 {
			t.Errorf("of %s %d votes wait: %+v", name, len(waits), waits[0])
		}
	}
}

// What was written while a controller waited to begin is found, and not written now: it may be old.
func TestVersionsBeforeTheFirstLook(t *testing.T) {
	r := newRig(t)
	r.pass(time.Minute, true)
	r.say("a-3", "false", "yes=0 no=3 of=3 exact=true")
	r.lose("a-3")
	none := r.n["a-3"]
	none.verdict, none.evidence = "", ""
	is := r.n["a-3"]
	is.voted = r.now.Add(-time.Hour)
	next := r.restart()
	next.world.setNode(next.now, "a-3", node{}, true)
	next.world.setVersions(next.now, "a-3", []node{none, is})
	if past := next.world.nodes["a-3"].past; !past.Found || past.Verdict != shield.Dead {
		t.Errorf("it is %+v", past)
	}
}

// flip has somebody write another verdict on what it rests on already, and the one before again.
func (r *rig) flip(name string) {
	n := r.n[name]
	for _, verdict := range []string{"", n.verdict} {
		n.verdict = verdict
		r.set(name, n)
	}
}

// A verdict is as old as what it rests on: whoever writes it again makes it no newer, and what was found is so still.
func TestAVerdictAloneIsNoNewer(t *testing.T) {
	r := newRig(t)
	r.pass(time.Minute, true)
	r.say("a-3", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.lose("a-3")
	for range 44 {
		r.pass(10*time.Second, true)
		r.listedAre("it was well just now", "a-3")
		r.flip("a-3")
	}
	r.pass(11*time.Second, true)
	r.listedAre("nobody has said so for long")

	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true")
	r.lose("a-2")
	r = r.restart()
	r.flip("a-2")
	r.pass(time.Minute, true)
	r.tainted("a-2", evicting, false)
}

// What stands on a Node that comes later counts by who wrote it, as on any other.
func TestAVerdictOnANewNode(t *testing.T) {
	for by, want := range map[string][]string{"a-1": {"a-4"}, "a-2": nil} {
		r := newRig(t)
		r.pass(time.Minute, true)
		r.n["a-4"] = node{uid: "a-4", unit: "a", ready: "Unknown", since: r.now}
		r.say("a-4", "true", "yes=3 no=0 of=3 exact=true by="+by)
		r.pass(2*time.Second, true)
		r.listedAre("well by "+by, want...)
	}
}

// Our own taint stays, as a controller found it, though somebody else writes over what it found.
func TestOurTaintIsTakenByNobodyElse(t *testing.T) {
	r := newRig(t)
	r.pass(time.Minute, true)
	r.say("a-3", "false", "yes=0 no=2 of=3 exact=true")
	r.pass(2*time.Second, true)
	r.tainted("a-3", unseen, true)
	r = r.restart()
	r.say("a-3", "true", "yes=3 no=0 of=3 exact=true by=a-2")
	r.pass(time.Minute, true)
	r.tainted("a-3", unseen, true)
	r.say("a-3", "true", "yes=3 no=0 of=3 exact=true")
	r.pass(2*time.Second, true)
	r.tainted("a-3", unseen, false)
}
