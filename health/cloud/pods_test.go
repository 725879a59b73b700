package cloud

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/kube/typed"
)

// shielded is a rig of which a-2 was lost, and is on the list with a pod.
func shielded(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.pass(2*time.Second, true)
	r.on.pods["a-2"] = []*corev1.Pod{pod("kept", "True", "True")}
	r.lose("a-2")
	r.pass(10*time.Second, true)
	r.listedAre("a-2 lost its uplink", "a-2")
	return r
}

func (r *rig) podsAre(when, want string) {
	r.t.Helper()
	if got := readies(r.on.pods["a-2"]); got != want {
		r.t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// A shield that ends though nobody says that the node is dead leaves its pods as Kubernetes
// would have: the controller manager marked them once, which was taken back, and does not again.
func TestAShieldThatEndsWithoutAVerdict(t *testing.T) {
	r := shielded(t)
	r.pass(7*time.Minute+10*time.Second, true)
	r.listedAre("the vote is old", "a-2")
	r.podsAre("it is held", "kept=True ")
	r.pass(30*time.Second, true)
	r.listedAre("the vote is too old")
	r.podsAre("nobody keeps it", "kept=False ")
	r.on.pods["a-2"] = []*corev1.Pod{pod("kept", "True", "True")} // its kubelet wrote it, as it may
	r.pass(2*time.Minute, true)
	r.podsAre("that is not for us to decide", "kept=True ")
}

// A webhook on a node that the cloud does not hear is not to be sent to: each write would wait for it.
func TestTheWebhookIsNotKept(t *testing.T) {
	r := shielded(t)
	of := pod("webhook", "False", "True")
	of.Labels = map[string]string{"app.kubernetes.io/name": "gridmesh-admission"}
	r.on.pods["a-2"] = []*corev1.Pod{of, pod("other", "False", "True")}
	r.pass(2*time.Minute, true)
	r.podsAre("it is kept", "webhook=False other=True ")
}

// A controller that ends between the list and the pods leaves them to the next one.
func TestAShieldThatEndsWithItsController(t *testing.T) {
	r := shielded(t)
	r.on.list = map[string]string{} // and it ended
	r.anew()
	r = r.restart()
	r.pass(29*time.Second, true)
	r.podsAre("it has just begun to look", "kept=True ")
	r.pass(10*time.Second, true)
	r.podsAre("it is lost, and on no list", "kept=False ")
}

// Pods are marked once the list is without their node: before that the marks' own consequences
// are taken back, and nothing makes them again. What expired needs no writing.
func TestPodsAreMarkedAfterTheList(t *testing.T) {
	for name, mend := range map[string]func(r *rig){
		"it is written at last": func(r *rig) { r.on.broken = false; r.pass(10*time.Second, true) },
		"it expires": func(r *rig) {
			for range 6 {
				r.pass(50*time.Second, true)
				r.say("a-2", "false", "yes=0 no=2 of=3 exact=true at="+r.now.Format(time.RFC3339))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := shielded(t)
			r.on.broken = true
			r.say("a-2", "false", "yes=0 no=2 of=3 exact=true")
			r.pass(20*time.Second, true)
			r.listedAre("it cannot be written", "a-2")
			r.podsAre("it is on the list", "kept=True ")
			mend(r)
			r.podsAre("it is not", "kept=False ")
		})
	}
}

// A pod that somebody else wrote in the same moment is marked later, and one that cannot be
// written keeps no other from it.
func TestAllPodsAreMarked(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, fault := range map[string]error{
		"changed": apierrors.NewConflict(pods, "first", nil), "refused": apierrors.NewForbidden(pods, "first", nil),
	} {
		t.Run(name, func(t *testing.T) {
			r := shielded(t)
			r.on.pods["a-2"] = []*corev1.Pod{pod("first", "True", "True"), pod("second", "True", "True")}
			r.anew()
			r.on.fault = fault
			r.pass(3*time.Second, true)
			r.podsAre("at first", "first=True second=False ")
			r.pass(10*time.Second, true)
			r.podsAre("again", "first=False second=False ")
		})
	}
}

// Pods that were made ready again are marked, too, where their node never came onto the list.
func TestAShieldThatWasNeverWritten(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.on.broken = true
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.on.pods["a-2"] = []*corev1.Pod{pod("kept", "False", "True")}
	r.lose("a-2")
	r.pass(time.Minute, true)
	r.podsAre("it is well", "kept=True ")
	r.anew()
	r.pass(10*time.Second, true)
	r.podsAre("nobody keeps it", "kept=False ")
}

// anew has a-2, which is lost, be another Node, on which nobody voted.
func (r *rig) anew() {
	n := r.n["a-2"]
	n.uid, n.verdict, n.evidence = n.uid+"-anew", "", ""
	r.set("a-2", n)
}

// Pods of a node that is kept are read from etcd once, and when it is kept no more; in between from
// what the API server has at hand.
func TestHowPodsAreRead(t *testing.T) {
	r := shielded(t)
	if got := r.on.asked; got[typed.Now] != 1 || got[typed.Cached] != 0 {
		t.Errorf("at first %v", got)
	}
	r.pass(5*time.Minute, true)
	if got := r.on.asked; got[typed.Now] != 1 || got[typed.Cached] < 8 || got[typed.Cached] > 10 {
		t.Errorf("for five minutes %v", got)
	}
	r.anew()
	r.pass(5*time.Minute, true)
	if got := r.on.asked; got[typed.Now] != 2 || got[typed.Cached] > 10 {
		t.Errorf("after it %v", got)
	}
}
