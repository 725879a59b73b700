// Package lead makes one replica of many act at a time, and installs what it
// acts on: CustomResourceDefinitions, and other objects of the cluster.
package lead

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/gridmesh/gridmesh/kube"
)

// Election is how replicas agree on one that acts.
type Election struct {
	Namespace, Name         string // of the Lease
	Identity                string // of this replica
	Lease, Renew, RetryWait time.Duration
	// Fault hears of every look at the Lease what failed, or nil; it may be nil.
	Fault func(error)
}

// ErrLost means that another replica leads now, or that the API server
// could not be reached long enough for one to.
var ErrLost = errors.New("the lease was lost")

// Run waits to be the leader and runs f as long as it is. It returns what f
// does, or ErrLost where f has no more to say of the loss than that it was
// canceled; nil where ctx ends before it led.
func Run(ctx context.Context, c *kube.Client, e Election, f func(ctx context.Context) error) error {
	elected, cancel := context.WithCancel(ctx)
	defer cancel()
	var result error
	var lost bool
	began, ended := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lock{&resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}, Client: c.Leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		}, e},
		LeaseDuration: e.Lease, RenewDeadline: e.Renew, RetryPeriod: e.RetryWait, ReleaseOnCancel: true, Name: e.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				close(began)
				defer close(ended)
				result = f(leading)
				// Judged before cancel, which ends leading as well.
				lost = leading.Err() != nil && ctx.Err() == nil
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	elector.Run(elected)
	cancel()
	select {
	case <-began:
		<-ended // Run does not wait for it
	default:
		return nil // ended before it led
	}
	if lost && (result == nil || errors.Is(result, context.Canceled)) {
		return ErrLost
	}
	return result
}

// lock is a Lease that tells what its reads and writes come to: client-go only
// logs that.
type lock struct {
	resourcelock.Interface
	Election
}

func (l *lock) tell(err error) error {
	if l.Fault == nil {
		return err
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, context.Canceled) {
		return err // it is made next, or another was faster, or this is the end
	}
	l.Fault(err)
	return err
}

// Get implements resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	return record, raw, l.tell(err)
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.tell(l.Interface.Create(ctx, r))
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.tell(l.Interface.Update(ctx, r))
}

// Identity implements resourcelock.Interface.
func (l *lock) Identity() string { return l.Interface.Identity() }
