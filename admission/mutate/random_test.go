package mutate_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/admission/mutate/mutatetest"
)

var resources = []mutate.Resource{mutate.Nodes, mutate.Pods, mutate.EndpointSlices, mutate.LegacyEndpoints}

// world makes writes nobody thought of: several cases' changes, one after another, on one
// case's object.
type world struct {
	rng   *rand.Rand
	cases []mutatetest.Case
}

// write is a stored object and what is to be written over it.
func (w *world) write() (old, next mutatetest.Object) {
	c := w.pick(resources[w.rng.IntN(len(resources))])
	old = stored(c.Old)
	for range w.rng.IntN(2) {
		old = w.change(old)
	}
	next = old.DeepCopyObject().(mutatetest.Object)
	for range 1 + w.rng.IntN(3) {
		next = w.change(next)
	}
	return old, next
}

// pick takes a case of a resource.
func (w *world) pick(r mutate.Resource) mutatetest.Case {
	for {
		if c := w.cases[w.rng.IntN(len(w.cases))]; c.Resource() == r {
			return c
		}
	}
}

// change does to an object what some case does to its own, where that can be.
func (w *world) change(o mutatetest.Object) (changed mutatetest.Object) {
	c := w.pick(mutatetest.Case{Old: o}.Resource())
	defer func() {
		if recover() != nil { // what it changes is not there
			changed = o
		}
	}()
	return c.Next(o.DeepCopyObject().(mutatetest.Object), now.Add(time.Duration(w.rng.IntN(7)-3)*time.Second))
}

// shield has none, some or both of the nodes, for longer or shorter than writes are late.
func (w *world) shield() mutate.Shield {
	s := mutate.Shield{}
	for _, node := range []string{mutatetest.Lost, mutatetest.Other} {
		if w.rng.IntN(3) > 0 {
			s[node] = now.Add(time.Duration(w.rng.IntN(9)-4) * time.Second)
		}
	}
	return s
}

// Whatever is written: what a decision leaves stands before the same decision again, and
// keeps the laws.
func TestLaws(t *testing.T) {
	w := &world{rng: rand.New(rand.NewPCG(5, 5)), cases: mutatetest.Cases(now)}
	changed := map[mutate.Resource]int{}
	reasons := map[mutate.Reason]int{}
	for range 1500 {
		old, next := w.write()
		s := w.shield()
		p, why, after := decide(t, old, next, s)
		reasons[why]++
		if again, why, _ := decide(t, old, after, s); len(again) > 0 {
			t.Fatalf("decided again, %v comes after %v: %s", again, p, why)
		}
		if p, why, _ := decide(t, old, next, nil); len(p) > 0 {
			t.Fatalf("without a shield: %v, %s", p, why)
		}
		if len(p) == 0 {
			if !equality.Semantic.DeepEqual(next, after) {
				t.Fatal("an empty patch changes something")
			}
			continue
		}
		changed[mutatetest.Case{Old: old}.Resource()]++
		for _, law := range laws(old, next, after, s) {
			t.Errorf("%s: %v", law, p)
		}
	}
	for _, r := range resources {
		if changed[r] < 15 {
			t.Errorf("%d writes of %s were changed: too few to show anything", changed[r], r)
		}
	}
	t.Log(changed, reasons)
}

// laws are those that a change breaks.
func laws(old, next, after mutatetest.Object, s mutate.Shield) []string {
	switch old := old.(type) {
	case *corev1.Node:
		return nodeLaws(old, next.(*corev1.Node), after.(*corev1.Node), s)
	case *corev1.Pod:
		return podLaws(old, next.(*corev1.Pod), after.(*corev1.Pod), s)
	case *discoveryv1.EndpointSlice:
		return sliceLaws(old, next.(*discoveryv1.EndpointSlice), after.(*discoveryv1.EndpointSlice), s)
	}
	return endpointsLaws(old.(*corev1.Endpoints), next.(*corev1.Endpoints), after.(*corev1.Endpoints), s) //nolint:staticcheck // deprecated, and still written
}

// claims are laws and whether they hold.
func claims(list map[string]bool) (broken []string) {
	for law, holds := range list {
		if !holds {
			broken = append(broken, law)
		}
	}
	return broken
}

func nodeLaws(old, next, after *corev1.Node, s mutate.Shield) []string {
	evicting := func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeUnreachable && t.Effect == corev1.TaintEffectNoExecute
	}
	sick := slices.ContainsFunc(old.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady && t.Effect == corev1.TaintEffectNoExecute
	})
	rest := slices.DeleteFunc(slices.Clone(next.Spec.Taints), evicting)
	return claims(map[string]bool{
		"only a shielded node changes":              !s[old.Name].IsZero(),
		"only the taint that evicts goes":           equality.Semantic.DeepEqual(rest, after.Spec.Taints),
		"a taint that was there stays":              !slices.ContainsFunc(old.Spec.Taints, evicting),
		"what its kubelet called not ready, stays":  !sick,
		"status and labels are as they are written": equality.Semantic.DeepEqual(next.Status, after.Status) && equality.Semantic.DeepEqual(next.Labels, after.Labels),
	})
}

func podLaws(old, next, after *corev1.Pod, s mutate.Shield) []string {
	is := func(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
		for _, c := range p.Status.Conditions {
			if c.Type == kind {
				return c.Status
			}
		}
		return ""
	}
	others := func(p *corev1.Pod) (list []corev1.PodCondition) {
		for _, c := range p.Status.Conditions {
			if c.Type != corev1.PodReady {
				list = append(list, c)
			}
		}
		return list
	}
	return claims(map[string]bool{
		"only pods of a shielded node change":     !s[old.Spec.NodeName].IsZero(),
		"only Ready changes":                      equality.Semantic.DeepEqual(others(next), others(after)) && next.Status.Message == after.Status.Message,
		"ready is only what was":                  is(old, corev1.PodReady) == corev1.ConditionTrue && is(after, corev1.PodReady) == corev1.ConditionTrue,
		"what its kubelet called not ready stays": is(next, corev1.ContainersReady) == corev1.ConditionTrue && is(old, corev1.ContainersReady) == corev1.ConditionTrue,
		"what terminates stays":                   old.DeletionTimestamp == nil && next.DeletionTimestamp == nil,
	})
}

func sliceLaws(old, next, after *discoveryv1.EndpointSlice, s mutate.Shield) []string {
	if len(after.Endpoints) != len(next.Endpoints) {
		return []string{"no endpoint comes or goes"}
	}
	var broken []string
	for i, e := range after.Endpoints {
		was := next.Endpoints[i]
		if equality.Semantic.DeepEqual(e, was) {
			continue
		}
		stood := func(up func(discoveryv1.EndpointConditions) *bool) bool {
			return slices.ContainsFunc(old.Endpoints, func(o discoveryv1.Endpoint) bool {
				return o.TargetRef != nil && e.TargetRef != nil && o.TargetRef.UID == e.TargetRef.UID &&
					slices.Equal(o.Addresses, e.Addresses) && ptr.Deref(up(o.Conditions), false)
			})
		}
		only := func(up func(discoveryv1.EndpointConditions) *bool) bool {
			return ptr.Deref(up(was.Conditions), false) == ptr.Deref(up(e.Conditions), false) || stood(up)
		}
		ready := only(func(c discoveryv1.EndpointConditions) *bool { return c.Ready })
		serving := only(func(c discoveryv1.EndpointConditions) *bool { return c.Serving })
		e.Conditions, was.Conditions = discoveryv1.EndpointConditions{Terminating: e.Conditions.Terminating}, discoveryv1.EndpointConditions{Terminating: was.Conditions.Terminating}
		broken = append(broken, claims(map[string]bool{
			"only endpoints on shielded nodes change": !s[*e.NodeName].IsZero(),
			"only ready and serving change":           equality.Semantic.DeepEqual(e, was),
			"what terminates stays":                   !ptr.Deref(e.Conditions.Terminating, false),
			"ready is only what was":                  ready,
			"serving is only what was":                serving,
		})...)
	}
	return broken
}
