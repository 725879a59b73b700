package cloud

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// podOn puts a pod on a node.
func (r *rig) podOn(node, name string, edit func(*corev1.Pod)) {
	p := pod(name, "True", "True")
	edit(p)
	r.on.pods[node] = append(r.on.pods[node], p)
}

func tolerating(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: evicting.Key, Operator: corev1.TolerationOpExists, Effect: evicting.Effect, TolerationSeconds: &seconds}}
	}
}

// A site that burned down is held for ever for what can run nowhere else; the rest goes after an
// hour, when its toleration is over, one node after the other, and has its replacements.
func TestWhatIsNotBoundGoes(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"b-1", "b-2", "b-3"} { // less than 55 in a hundred are lost
		r.set(name, node{uid: name, unit: "b", ready: corev1.ConditionTrue})
	}
	for _, name := range []string{"a-1", "a-2"} {
		r.podOn(name, name+"-other", tolerating(300))
		r.podOn(name, name+"-grid", func(p *corev1.Pod) { tolerating(300)(p); p.Spec.NodeSelector = map[string]string{"unit": "a"} })
	}
	r.podOn("a-3", "a-3-patient", tolerating(24*3600))
	r.pass(40*time.Second, true)
	r.pass(45*time.Second, false)
	r.lose("a-1", "a-2", "a-3")
	r.pass(time.Hour, false)
	r.podsAre("for an hour", "a-2-other=True a-2-grid=True ")
	r = r.restart()
	r.pass(time.Minute, false)
	r.listedAre("after an hour", "a-1", "a-2", "a-3")
	r.podsAre("after an hour", "a-2-other=False a-2-grid=True ")
	if len(r.on.evicted) > 0 {
		t.Errorf("%v are evicted, and tolerate that for five minutes", r.on.evicted)
	}
	r.pass(5*time.Minute, false)
	slices.Sort(r.on.evicted)
	if want := []string{"a-1-other", "a-2-other"}; !slices.Equal(r.on.evicted, want) {
		t.Errorf("%v are evicted, want %v", r.on.evicted, want)
	}
	r = r.restart()
	r.pass(10*time.Second, false)
	if got := readies(r.on.pods["a-3"]); got != "a-3-patient=False " {
		t.Errorf("another one begins: %s", got)
	}
	r.pass(5*time.Hour, false)
	r.listedAre("hours later", "a-1", "a-2", "a-3")
	r.podsAre("hours later", "a-2-other=False a-2-grid=True ")
	if len(r.on.taints) > 0 || len(r.on.evicted) != 2 {
		t.Errorf("taints %v, evicted %v", r.on.taints, r.on.evicted)
	}
}

// Where most of a cluster is lost it is the cloud that is cut off, and nothing goes.
func TestNothingGoesWhereMostIsLost(t *testing.T) {
	r := newRig(t)
	r.podOn("a-2", "other", tolerating(300))
	r.pass(40*time.Second, true)
	r.pass(45*time.Second, false)
	r.lose("a-1", "a-2", "a-3")
	r.pass(3*time.Hour, false)
	r.listedAre("after three hours", "a-1", "a-2", "a-3")
	r.podsAre("after three hours", "other=True ")
}

// What is bound, by all that binds, and how long others stay.
func TestBound(t *testing.T) {
	in := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	}
	term := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}
	}
	ds := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a-2"}}}}
	for name, tt := range map[string]struct {
		edit          func(*corev1.Pod)
		marked, after bool // whether it is marked, and whether it goes after a minute
	}{
		"nothing":               {func(*corev1.Pod) {}, true, true},
		"selects its unit":      {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"unit": "a"} }, false, false},
		"selects another unit":  {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"unit": "b"} }, true, true},
		"selects its node":      {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a-2"} }, false, false},
		"selects disks":         {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, true, true},
		"wants its unit":        {in(term("unit", "a")), false, false},
		"wants its unit, or b":  {in(term("unit", "a", "b")), true, true},
		"wants its unit, or ..": {in(term("unit", "a"), term("disk", "ssd")), true, true},
		"of a DaemonSet":        {in(ds), false, false},
		"tolerates it":          {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }, false, false},
		"tolerates another": {func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}}
		}, true, true},
		"for 5 minutes": {tolerating(300), true, false},
		"for a moment":  {tolerating(-1), true, true},
		"for ages":      {tolerating(1 << 62), true, false},
		"static":        {func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, false, false},
		"for a value": {func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: evicting.Key, Value: "x", Effect: evicting.Effect}}
		}, true, true},
	} {
		p := pod(name, "True", "True")
		tt.edit(p)
		if marked, evicted := goes(p, "unit", "a", time.Minute); marked != tt.marked || evicted != tt.after {
			t.Errorf("%s: marked %v, evicted %v", name, marked, evicted)
		}
	}
}
