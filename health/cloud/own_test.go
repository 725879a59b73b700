package cloud

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a node's own kubelet said before it was missed is not made better.
func TestANodeThatWasNotReadyByItsOwnWord(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	n := r.n["a-2"]
	n.ready = corev1.ConditionFalse
	r.set("a-2", n)
	r.on.taints["a-2"] = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}
	r.on.pods["a-2"] = []*corev1.Pod{pod("marked", "False", "True")}
	r.pass(20*time.Second, true)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.on.taints["a-2"] = []corev1.Taint{evicting}
	r.lose("a-2")
	r.pass(time.Minute, true)
	r.listedAre("it lost its uplink", "a-2")
	r.tainted("a-2", evicting, true)
	r.podsAre("it was not ready", "marked=False ")
	r.back("a-2")
	r.on.taints["a-2"] = nil
	r.pass(time.Second, true)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true round=2")
	r.on.taints["a-2"] = []corev1.Taint{evicting}
	r.lose("a-2")
	r.pass(5*time.Second, true)
	r.tainted("a-2", evicting, false)
	r.podsAre("it was ready when it was lost again", "marked=True ")
}

// Neither is it by a controller that begins: what was marked before the node was missed was so by its
// kubelet's word, for the controller manager marks pods as it takes their node for lost.
func TestOwnWordsOutliveAController(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	n := r.n["a-2"]
	n.ready = corev1.ConditionFalse
	r.set("a-2", n)
	own, marked := pod("own", "False", "True"), pod("marked", "False", "True")
	r.on.pods["a-2"] = []*corev1.Pod{own, marked}
	condition(own, corev1.PodReady).LastTransitionTime = metav1.NewTime(r.now)
	r.pass(20*time.Second, true)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.lose("a-2")
	condition(marked, corev1.PodReady).LastTransitionTime = metav1.NewTime(r.now.Add(-time.Second))
	r.pass(2*time.Second, true)
	r = r.restart()
	r.pass(2*time.Minute, true)
	r.listedAre("it lost its uplink", "a-2")
	r.podsAre("another one begins", "own=False marked=True ")
}
