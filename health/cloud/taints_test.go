package cloud

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// dead is a rig of which a-2 died, and is tainted for it.
func dead(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.lose("a-2")
	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true")
	r.pass(20*time.Second, true)
	r.tainted("a-2", evicting, true)
	return r
}

func (r *rig) tainted(node string, taint corev1.Taint, want bool) {
	r.t.Helper()
	if got := find(r.on.taints[node], taint) >= 0; got != want {
		r.t.Errorf("%s is tainted %s:%s: %v, want %v", node, taint.Key, taint.Effect, got, want)
	}
}

// A node that was given up, and is voted well again while the cloud does not hear it, keeps its
// pods: the taint goes, whoever gave it, also where a new controller finds that.
func TestDeadThenWellWhileLost(t *testing.T) {
	r := dead(t)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.pass(2*time.Second, true)
	r.listedAre("it is well", "a-2")
	r.tainted("a-2", evicting, false)

	r = dead(t)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r = r.restart()
	r.pass(2*time.Second, true)
	r.tainted("a-2", evicting, false)
}

// A node that was voted dead, and whose unit then lost its uplink, stays given up.
func TestDeadInADarkUnit(t *testing.T) {
	r := dead(t)
	r.pass(5*time.Minute, false)
	r.tainted("a-2", evicting, true)
}

// A node that the cloud hears again is the controller manager's, which takes its taints away.
func TestTheTaintOfANodeThatIsBack(t *testing.T) {
	r := dead(t)
	n := r.n["a-2"]
	n.ready = corev1.ConditionTrue
	r.set("a-2", n)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true")
	r.pass(10*time.Second, true)
	r.tainted("a-2", evicting, true)
}

// A node that came back, which was not told here yet, does not lose its pods.
func TestNoTaintOnANodeThatIsHeard(t *testing.T) {
	r := newRig(t)
	r.on.heard = true
	r.pass(40*time.Second, true)
	r.lose("a-2")
	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true")
	r.pass(20*time.Second, true)
	r.tainted("a-2", evicting, false)
	r.on.heard = false
	r.pass(20*time.Second, true)
	r.tainted("a-2", evicting, true)
}

// What anybody may write who may annotate Nodes taints nobody: it takes a count of the unit.
func TestAVerdictWithoutAMajority(t *testing.T) {
	for _, text := range []string{"", "nonsense", "yes=0 no=2 of=3", "yes=1 no=1 of=3 exact=true", "yes=0 no=1 of=1 exact=true", "yes=0 no=5 of=3 exact=true"} {
		r := newRig(t)
		r.pass(40*time.Second, true)
		r.lose("a-3")
		for _, name := range []string{"a-2", "a-3"} {
			r.say(name, "false", text)
		}
		r.pass(time.Minute, true)
		if len(r.on.taints) > 0 {
			t.Errorf("%q: taints %v", text, r.on.taints)
		}
	}
}

// unseenBy makes a unit of 40 nodes that are all said to be unseen, as who has one token of
// theirs may write it.
func (r *rig) unseenBy(evidence string) {
	for i := range 40 {
		name := fmt.Sprintf("b-%02d", i)
		if _, there := r.n[name]; !there {
			r.set(name, node{uid: name, unit: "b", ready: corev1.ConditionTrue})
		}
		r.say(name, "false", evidence)
	}
}

func (r *rig) unseen() (list []string) {
	for name, taints := range r.on.taints {
		if find(taints, unseen) >= 0 {
			list = append(list, name)
		}
	}
	return list
}

// However many are said to be unseen, a few get nothing new; a controller that begins anew
// neither adds to them nor takes from them what the votes still say.
func TestUnseenNodesHaveABudget(t *testing.T) {
	r := newRig(t)
	renew := func() {
		for range 3 {
			r.renewOf("b")
			r.pass(10*time.Second, true)
		}
	}
	renew()
	for i := range 3 {
		r.unseenBy(fmt.Sprint("yes=0 no=39 of=40 exact=true by=b-1 round=", i))
		renew()
	}
	if got := r.unseen(); len(got) != 4 {
		t.Errorf("of 43 nodes %v are tainted: want 4", got)
	}
	r = r.restart()
	for i := range 6 {
		renew()
		if got := r.unseen(); len(got) != 4 {
			t.Fatalf("%d s after another one began %v are tainted: want 4", 30*i, got)
		}
		if i >= 2 { // votes are renewed each minute, or so
			r.unseenBy(fmt.Sprint("yes=0 no=39 of=40 exact=true by=b-1 round=", 10+i/2))
		}
	}
	for name := range r.n {
		r.say(name, "true", "yes=40 no=0 of=40 exact=true")
	}
	renew()
	if got := r.unseen(); len(got) != 0 {
		t.Errorf("%v are tainted: want none", got)
	}
}

// Writes of Nodes that nobody answers keep no list from being written.
func TestSlowWritesOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pass(40*time.Second, true)
		r.on.stuck = true
		r.say("a-1", "false", "yes=0 no=2 of=3 exact=true")
		r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
		begin := time.Now()
		for range 60 {
			r.now = r.now.Add(time.Second)
			r.renew()
			r.look(t.Context(), r.now)
		}
		r.listedAre("nobody answers for Nodes", "a-2")
		if took := time.Since(begin); took > 0 {
			t.Errorf("60 looks waited %s", took)
		}
		r.work.Wait()
		r.on.stuck = false
		r.pass(20*time.Second, true)
		r.tainted("a-1", unseen, true)
	})
}
