package cloud

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
)

// Who was given up stays so: neither that a controller begins nor that a unit falls silent says
// that a node is well.
func TestSilenceRevivesNobody(t *testing.T) {
	given := func(t *testing.T) *rig {
		t.Helper()
		r := newRig(t)
		r.pass(40*time.Second, true)
		r.lose("a-2")
		r.on.pods["a-2"] = []*corev1.Pod{pod("gone", "False", "True")}
		r.on.taints["a-2"] = []corev1.Taint{evicting}
		return r
	}
	for name, verdict := range map[string]string{"voted dead": "false", "well, long ago": "true", "never voted on": "", "well, nobody knows when": "true"} {
		t.Run(name, func(t *testing.T) {
			r := given(t)
			r.say("a-2", verdict, "yes=0 no=2 of=3 exact=true")
			if verdict != "false" {
				r.pass(10*time.Minute, true)
			}
			if strings.Contains(name, "nobody knows") {
				n := r.n["a-2"]
				n.voted = time.Time{}
				r.set("a-2", n)
			}
			r.on.pods["a-2"] = []*corev1.Pod{pod("gone", "False", "True")}
			r.on.taints["a-2"] = []corev1.Taint{evicting}
			r.pass(10*time.Second, true)
			r.listedAre("it was given up")
			r.pass(90*time.Second, false)
			r.listedAre("its unit falls silent", "a-1", "a-3")
			r.podsAre("its unit falls silent", "gone=False ")
			r.tainted("a-2", evicting, true)
			for range 2 {
				r = r.restart()
				r.pass(time.Minute, true)
				r.podsAre("another controller begins", "gone=False ")
				r.tainted("a-2", evicting, true)
				r.pass(90*time.Second, false)
				r.podsAre("it is silent again", "gone=False ")
				r.tainted("a-2", evicting, true)
			}
		})
	}
}

// Who was released because its unit could not agree stays so when the last node that the cloud heard
// is not heard any more, or is gone.
func TestTheLastOneRevivesNobody(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"lost": func(r *rig) { r.lose("a-3") },
		"gone": func(r *rig) { delete(r.n, "a-3"); r.world.setNode(r.now, "a-3", node{}, true) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pass(10*time.Minute, true)
			r.pass(45*time.Second, false)
			r.lose("a-1", "a-2")
			r.pass(time.Hour, false)
			r.listedAre("two of three are dead")
			r.on.taints["a-2"] = []corev1.Taint{evicting}
			for range 2 {
				end(r)
				r.pass(10*time.Minute, false)
				if r.on.list["a-1"] != "" || r.on.list["a-2"] != "" {
					t.Errorf("%v are kept", r.on.list)
				}
				r.tainted("a-2", evicting, true)
				if name == "lost" { // of who is gone another controller knows nothing
					r = r.restart()
					r.pass(2*time.Minute, false)
					r.tainted("a-2", evicting, true)
					r.back("a-3")
					r.pass(10*time.Minute, false)
				}
			}
		})
	}
}

// A unit that lost its uplink while no controller looked is held by the next one, and who was lost
// before that is not: the API server says when it took the last renewal.
func TestAUnitFellSilentWhileNobodyLooked(t *testing.T) {
	r := newRig(t)
	r.pass(10*time.Minute, true)
	r.lose("a-3")
	r.pass(time.Minute, true)
	r.listedAre("one is lost, and nobody said anything of it")
	r.now = r.now.Add(50 * time.Second)
	r.lose("a-1", "a-2")
	r.now = r.now.Add(10 * time.Second)
	r = r.restart()
	r.on.pods["a-2"] = []*corev1.Pod{pod("marked", "False", "True")}
	r.pass(5*time.Second, false)
	r.listedAre("another one begins", "a-1", "a-2")
	r.podsAre("another one begins", "marked=True ")
	r.pass(time.Hour, false)
	r.listedAre("an hour later", "a-1", "a-2")
}

// A vote that came while no controller looked keeps: the API server says when it took it.
func TestAVoteWhileNobodyLooked(t *testing.T) {
	r := newRig(t)
	r.pass(10*time.Minute, true)
	r.now = r.now.Add(20 * time.Second)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.now = r.now.Add(20 * time.Second)
	r.lose("a-2")
	r = r.restart()
	r.pass(5*time.Second, true)
	r.listedAre("another one begins", "a-2")
}

// What is kept of the API server's word is about the field alone, and may not be there.
func TestTaken(t *testing.T) {
	at := func(hour int) *metav1.Time {
		t := metav1.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC)
		return &t
	}
	list := []metav1.ManagedFieldsEntry{
		{Manager: "kubelet", Time: at(9), FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{}}}`)},
		{Manager: "gridmesh-health", Time: at(7), FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:superedgehealth/evidence":{},"f:superedgehealth/node-health":{}}}}`)},
		{Manager: "kubectl", Time: at(5), FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:superedgehealth/evidence":{}}}}`)},
		{Manager: "older"},
		{Manager: "odd", Time: at(23)},
	}
	if got := taken(list, names.Evidence); !got.Equal(at(7).Time) {
		t.Errorf("the evidence was taken at %s", got)
	}
	if got := taken(list[:1], names.Evidence); !got.IsZero() {
		t.Errorf("nobody wrote it, and it was taken at %s", got)
	}
}
