package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// behind says that Kubernetes' own controller has not written what a Service's slices
// are to be.
type behind struct{ service, text string }

func (b *behind) Error() string { return b.text }

// orphan says that a pod is of a Deployment that is gone, by a ReplicaSet or, for "", by
// none that is to stay. It may be deleted already, and nobody has it forgotten.
type orphan struct {
	pod, set string
	goes     bool
}

func (o *orphan) Error() string {
	if o.goes {
		return fmt.Sprintf("pod %s is of no Deployment that there is, and goes", o.pod)
	}
	return fmt.Sprintf("pod %s is of no Deployment that there is", o.pod)
}

// cure is what to delete for it, and how.
func (o *orphan) cure() (resource, name string, how metav1.DeleteOptions) {
	switch {
	case o.set != "": // it would have another pod made
		return "replicasets", o.set, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	case o.goes: // to delete it once more would change nothing
		return "pods", o.pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	}
	return "pods", o.pod, metav1.DeleteOptions{}
}

// remindAfter is for how long Kubernetes' controllers may be behind.
const remindAfter = 30 * time.Second

// remind does what Kubernetes' own controllers have forgotten, and tells it: that is not
// what the soak is about.
func (s *Soak) remind(ctx context.Context, err error) {
	var o *orphan
	if errors.As(err, &o) {
		// Its garbage collector passes over what a Deployment left that was made anew
		// (kubernetes#133565): docs/limits.md says what to do.
		s.afterAWhile(o.pod, err, func() error {
			resource, name, how := o.cure()
			if resource == "replicasets" {
				return s.c.Kube.AppsV1().ReplicaSets("default").Delete(ctx, name, how)
			}
			return s.c.Kube.CoreV1().Pods("default").Delete(ctx, name, how)
		})
	}
	var b *behind
	if errors.As(err, &b) { // as well, for one that is not ready is in no slice
		// Where its mirror lags behind an API server that was killed it tries fifteen times, and
		// then waits for the next change ("Retry budget exceeded", endpointslice_controller.go).
		s.afterAWhile(b.service, err, func() error {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"soak/reminded":%q}}}`, time.Now().Format(time.RFC3339Nano))
			_, err := s.c.Kube.CoreV1().Services("default").Patch(ctx, b.service, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
}

// afterAWhile does what others have not done for an object since it was first seen.
func (s *Soak) afterAWhile(object string, why error, do func() error) {
	since, seen := s.reminded[object]
	switch {
	case !seen:
		s.reminded[object] = time.Now()
	case time.Since(since) >= remindAfter:
		failed := do()
		s.say("  did for Kubernetes what it forgot: %v (%v)", why, failed)
		s.reminded[object] = time.Now()
	}
}
