package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// behind says that Kubernetes' own controller has not written what a Service's slices
// are to be.
type behind struct{ service, text string }

func (b *behind) Error() string { return b.text }

// remindAfter is for how long Kubernetes' controller of slices may be behind.
const remindAfter = 30 * time.Second

// remind has Kubernetes' controller of slices look at a Service again that it has
// forgotten: where its mirror lags behind an API server that was killed it tries fifteen times,
// and then waits for the next change ("Retry budget exceeded", endpointslice_controller.go). That
// is not what the soak is about, and it is told.
func (s *Soak) remind(ctx context.Context, err error) {
	var b *behind
	if !errors.As(err, &b) {
		return
	}
	since, seen := s.reminded[b.service]
	switch {
	case !seen:
		s.reminded[b.service] = time.Now()
	case time.Since(since) >= remindAfter:
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"soak/reminded":%q}}}`, time.Now().Format(time.RFC3339Nano))
		_, failed := s.c.Kube.CoreV1().Services("default").Patch(ctx, b.service, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		s.say("  reminded kube-controller-manager of %s: %v (%v)", b.service, err, failed)
		s.reminded[b.service] = time.Now()
	}
}
