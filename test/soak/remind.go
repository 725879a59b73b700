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

// orphan says that a pod is of a Deployment that is gone, by a ReplicaSet or, for "", not
// even of that.
type orphan struct{ pod, set, text string }

func (o *orphan) Error() string { return o.text }

// remindAfter is for how long Kubernetes' controllers may be behind.
const remindAfter = 30 * time.Second

// remind does what Kubernetes' own controllers have forgotten, and tells it: that is not
// what the soak is about.
func (s *Soak) remind(ctx context.Context, err error) {
	var b *behind
	var o *orphan
	switch {
	case errors.As(err, &b):
		// Where its mirror lags behind an API server that was killed it tries fifteen times, and
		// then waits for the next change ("Retry budget exceeded", endpointslice_controller.go).
		s.afterAWhile(b.service, err, func() error {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"soak/reminded":%q}}}`, time.Now().Format(time.RFC3339Nano))
			_, err := s.c.Kube.CoreV1().Services("default").Patch(ctx, b.service, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	case errors.As(err, &o):
		// Its garbage collector passes over what a Deployment left that was made anew
		// (kubernetes#133565): docs/limits.md says what to do.
		s.afterAWhile(o.pod, err, func() error {
			if o.set == "" {
				return s.c.Kube.CoreV1().Pods("default").Delete(ctx, o.pod, metav1.DeleteOptions{})
			}
			return s.c.Kube.AppsV1().ReplicaSets("default").Delete(ctx, o.set, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
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
		s.say("  did for kube-controller-manager what it forgot: %v (%v)", why, failed)
		s.reminded[object] = time.Now()
	}
}
