package cloud

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Nodes in no unit are nobody's business, unless an earlier controller kept them.
func TestNodesInNoUnit(t *testing.T) {
	r := newRig(t)
	r.set("a-2", node{uid: "a-2", ready: corev1.ConditionUnknown})
	r.on.pods["a-2"] = []*corev1.Pod{pod("other", "True", "True")}
	r = r.restart()
	r.pass(2*time.Minute, true)
	r.podsAre("it is in no unit", "other=True ")

	r.on.list = map[string]string{"a-2": "soon"}
	r = r.restart()
	r.pass(2*time.Minute, true)
	r.podsAre("it was kept", "other=False ")
}
