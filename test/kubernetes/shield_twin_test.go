//nolint:staticcheck // Endpoints are deprecated, and still written
package kubernetes

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/admission/mutate/mutatetest"
	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// create stores a case's object, and returns it as it is stored.
func create(t *testing.T, o mutatetest.Object) (stored mutatetest.Object, err error) {
	t.Helper()
	ctx, api := patient(t), c.Kube
	switch o := o.(type) {
	case *corev1.Node:
		return api.CoreV1().Nodes().Create(ctx, o, metav1.CreateOptions{})
	case *discoveryv1.EndpointSlice:
		return api.DiscoveryV1().EndpointSlices(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *corev1.Endpoints:
		return api.CoreV1().Endpoints(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	}
	want := o.(*corev1.Pod)
	pods := api.CoreV1().Pods(want.Namespace)
	fresh := want.DeepCopy()
	fresh.DeletionTimestamp, fresh.DeletionGracePeriodSeconds = nil, nil
	pod, err := pods.Create(ctx, fresh, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	pod.Status = want.Status
	// A kubelet's own words of it, so that the manager's are another's.
	if pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{FieldManager: "kubelet"}); err != nil || want.DeletionTimestamp == nil {
		return pod, err
	}
	if err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	return pods.Get(ctx, pod.Name, metav1.GetOptions{})
}

// update is the controller manager's write.
func update(t *testing.T, api kubernetes.Interface, o mutatetest.Object) (mutatetest.Object, error) {
	t.Helper()
	ctx, how := patient(t), metav1.UpdateOptions{FieldManager: "kube-controller-manager"}
	switch o := o.(type) {
	case *corev1.Node:
		return api.CoreV1().Nodes().Update(ctx, o, how)
	case *corev1.Pod:
		return api.CoreV1().Pods(o.Namespace).UpdateStatus(ctx, o, how)
	case *discoveryv1.EndpointSlice:
		return api.DiscoveryV1().EndpointSlices(o.Namespace).Update(ctx, o, how)
	}
	e := o.(*corev1.Endpoints)
	return api.CoreV1().Endpoints(e.Namespace).Update(ctx, e, how)
}

// remove takes a case's object away at once.
func remove(t *testing.T, o mutatetest.Object) {
	t.Helper()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	ctx, api := patient(t), c.Kube
	var err error
	switch o := o.(type) {
	case *corev1.Node:
		err = api.CoreV1().Nodes().Delete(ctx, o.Name, now)
	case *corev1.Pod:
		err = api.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, now)
	case *discoveryv1.EndpointSlice:
		err = api.DiscoveryV1().EndpointSlices(o.Namespace).Delete(ctx, o.Name, now)
	case *corev1.Endpoints:
		err = api.CoreV1().Endpoints(o.Namespace).Delete(ctx, o.Name, now)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// content is an object without what the API server keeps of it.
func content(t *testing.T, o mutatetest.Object) string {
	t.Helper()
	o = o.DeepCopyObject().(mutatetest.Object)
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	text, err := yaml.Marshal(o)
	must(t, err)
	return string(text)
}

// written writes a case, and returns what was stored before, was sent, and came of it. The
// cluster's controllers may write a Node meanwhile, and delete a pod whose Node is not there: then all of it begins again.
func written(t *testing.T, tc mutatetest.Case, api kubernetes.Interface) (old, next, got mutatetest.Object) {
	t.Helper()
	wait.Eventually(t, func() (err error) {
		remove(t, tc.Old)
		if old, err = create(t, tc.Old); err != nil {
			return err
		}
		next = tc.Next(old, time.Now())
		sent := next.DeepCopyObject().(mutatetest.Object)
		sent.SetManagedFields(nil) // as clients do
		got, err = update(t, api, sent)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err
	})
	t.Cleanup(func() { remove(t, tc.Old) })
	return old, next, got
}

// What becomes of a write is the same by the policies of a real API server as by package mutate.
func TestShieldPoliciesDecideAsMutate(t *testing.T) {
	policies(t, policy.Shield(), policy.SecondLine())
	s := newShielding(t)
	for _, tc := range mutatetest.Cases(time.Now()) {
		t.Run(string(tc.Resource())+"/"+tc.Name, func(t *testing.T) {
			entries := tc.Entries(time.Now())
			s.put(entries)
			old, next, got := written(t, tc, asWriter(t, tc.Writer()))
			shield, _ := mutate.ParseShield(entries)
			var p mutate.Patch
			var why mutate.Reason
			if mutate.Writes(tc.Writer(), tc.Resource()) {
				p, why = mutatetest.Decide(old, next, shield)
			}
			if why != tc.Want {
				t.Fatalf("mutate says %q, want %q", why, tc.Want)
			}
			want, err := mutatetest.Apply(next, p)
			must(t, err)
			if got, want := content(t, got), content(t, want); got != want {
				t.Errorf("the API server stored\n%s\nmutate wants\n%s\nof\n%s", got, want, content(t, next))
			}
			if same := got.GetResourceVersion() == old.GetResourceVersion(); same != tc.Nothing {
				t.Errorf("resourceVersion %s, before %s; nothing is left of it: %v\nmanaged by %v,\nbefore    %v",
					got.GetResourceVersion(), old.GetResourceVersion(), tc.Nothing, got.GetManagedFields(), old.GetManagedFields())
			}
			if tc.Nothing && !equality.Semantic.DeepEqual(got.GetManagedFields(), old.GetManagedFields()) {
				t.Errorf("managed by %v, before %v", got.GetManagedFields(), old.GetManagedFields())
			}
		})
	}
}

// Without a table, and with one that is empty, writes are as they are sent.
func TestNoShieldChangesNothing(t *testing.T) {
	policies(t, policy.Shield(), policy.SecondLine())
	s := newShielding(t)
	s.put(map[string]string{mutatetest.Lost: inAnHour()}) // so that the policies are in force
	for what, data := range map[string]map[string]string{"none": nil, "empty": {}} {
		t.Run(what, func(t *testing.T) {
			parameter(t, names.Shield, data)
			for _, tc := range mutatetest.Cases(time.Now()) {
				if !tc.Nothing {
					continue
				}
				api := asWriter(t, tc.Writer())
				wait.Eventually(t, func() error { // until the API server has seen it
					_, next, got := written(t, tc, api)
					if content(t, next) != content(t, got) {
						return errors.New("still shielded")
					}
					return nil
				})
			}
		})
	}
}

// After all policies were deleted, and with them the last use of their parameters' kind, those that
// are made again see what was written meanwhile, and what is written later.
func TestPoliciesThatAreMadeAgainSeeTheNewestShield(t *testing.T) {
	text := policy.Shield() + "---\n" + policy.SecondLine() + "---\n" + policy.Votes()
	policies(t, text)
	s := newShielding(t)
	s.put(map[string]string{mutatetest.Lost: inAnHour()})
	for range 2 {
		unapply(t, text)
		slices := s.slice.DiscoveryV1().EndpointSlices(mutatetest.Namespace)
		down := mutatetest.Down(s.probe.DeepCopy(), 0)
		isUp := func() (bool, error) {
			got, err := slices.Update(patient(t), down, rehearsed)
			return err == nil && *got.Endpoints[0].Conditions.Ready, err
		}
		wait.Eventually(t, func() error {
			up, err := isUp()
			if up {
				err = errors.New("the policies are still in force")
			}
			return err
		})
		parameter(t, names.Shield, map[string]string{*s.probe.Endpoints[0].NodeName: inAnHour(), "written-meanwhile": inAnHour()})
		wait.Eventually(t, func() error { return c.Apply(text) })
		wait.Eventually(t, func() error {
			up, err := isUp()
			if err == nil && !up {
				err = errors.New("what was written meanwhile is not in force")
			}
			return err
		})
		s.put(nil) // what is written later
	}
}
