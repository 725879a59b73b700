package health

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// How a unit's Lease is held. client-go's elections write each RetryPeriod, and with thousands
// of units each 2 s are too often; here it is written as often as a kubelet writes its own.
const (
	leaseEvery    = 10 * time.Second // between two writes of who holds it
	leaseFor      = 20 * time.Second // without one it is anybody's
	leaseCounts   = 18 * time.Second // for its holder, from before the write began
	leaseLook     = 4 * time.Second  // how often the others look
	leaseTry      = 2 * time.Second  // after what failed
	leasePatience = 5 * time.Second  // of a request
)

// leases are those of a namespace.
type leases interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// Quit is that a node said itself, at a time, that it has no uplink: it cannot renew the Lease,
// nor write what it would hold it for.
type Quit struct {
	Node string
	At   time.Time
}

var errTaken = errors.New("another node has taken its Lease")

// holding is how one node holds the Lease of one unit, or waits for it.
type holding struct {
	api        leases
	node, unit string
	quits      <-chan Quit
	tell       func(until time.Time)
	log        logger

	quit    Quit                  // the last one
	last    *coordinationv1.Lease // as it was read or written last; nil where that is not known
	changed time.Time             // when it was last seen to be another one: clocks of nodes are not compared
	until   time.Time             // it is held; zero where it is not
	said    metav1.StatusReason   // why the API server refused it last
}

// run holds it until ctx ends, and gives it back then.
func (h *holding) run(ctx context.Context) {
	for {
		at := time.Now()
		within, cancel := context.WithTimeout(ctx, leasePatience)
		wait, err := h.turn(within, at)
		cancel()
		h.fault(err)
		if !h.until.IsZero() && !time.Now().Before(h.until) && ctx.Err() == nil {
			h.lose(err)
		}
		if !h.wait(ctx, at.Add(max(wait, 0))) {
			h.release(ctx)
			return
		}
	}
}

// wait waits for a time, or until the holder says that it can do no more.
func (h *holding) wait(ctx context.Context, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case h.quit = <-h.quits:
			if h.last != nil && holderOf(h.last) == h.quit.Node {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// turn renews the Lease, takes it where it is free, or looks at it, and says when to do so
// again. Who holds it does not read it: a write of somebody else is a conflict.
func (h *holding) turn(ctx context.Context, at time.Time) (wait time.Duration, err error) {
	if !h.holds() {
		if err := h.look(ctx); err != nil {
			return leaseTry, err
		}
		if !h.until.IsZero() && !h.holds() {
			h.lose(errTaken)
		}
		if free := h.changed.Add(leaseFor); h.last != nil && !h.holds() && !h.free() && at.Before(free) {
			return min(leaseLook, free.Sub(at)), nil
		}
	}
	if err := h.write(ctx, h.node, leaseFor); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			h.last = nil // somebody else was faster
		}
		return leaseTry, err
	}
	if h.until.IsZero() {
		h.log.Info("this node writes the verdicts of its unit", obs.KeyUnit, h.unit)
	}
	h.until = at.Add(leaseCounts)
	h.tell(h.until)
	return leaseEvery, nil
}

// holds reports whether the Lease is this node's, as far as it knows: of before a restart, too.
func (h *holding) holds() bool { return h.last != nil && holderOf(h.last) == h.node }

// free reports whether nobody holds it, or who did said after it renewed it last that it can no more.
func (h *holding) free() bool {
	holder := holderOf(h.last)
	return holder == "" || holder == h.quit.Node && h.quit.At.After(h.changed)
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func (h *holding) look(ctx context.Context) error {
	l, err := h.api.Get(ctx, LeaseName(h.unit), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		h.last = nil
		return nil
	case err != nil:
		return err
	case h.last == nil || h.last.ResourceVersion != l.ResourceVersion:
		h.changed = time.Now()
	}
	h.last = l
	return nil
}

// write makes the Lease a holder's, or nobody's: of nobody else in between.
func (h *holding) write(ctx context.Context, holder string, lasts time.Duration) (err error) {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName(h.unit)}}
	if h.last != nil {
		l = h.last.DeepCopy()
	}
	now, seconds := metav1.NowMicro(), int32(lasts/time.Second)
	if holder != "" && holderOf(l) != holder {
		turns := int32(0)
		if l.Spec.LeaseTransitions != nil {
			turns = *l.Spec.LeaseTransitions + 1
		}
		l.Spec.AcquireTime, l.Spec.LeaseTransitions = &now, &turns
	}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &holder, &seconds, &now
	metav1.SetMetaDataLabel(&l.ObjectMeta, names.UnitLease, short(h.unit))
	if h.last == nil {
		l, err = h.api.Create(ctx, l, metav1.CreateOptions{})
	} else {
		l, err = h.api.Update(ctx, l, metav1.UpdateOptions{})
	}
	if err == nil {
		h.last, h.changed = l, time.Now()
	}
	return err
}

// fault tells, once, that the API server does not let this node hold it. That it is not reached
// is told of the uplink.
func (h *holding) fault(err error) {
	switch why := apierrors.ReasonForError(err); {
	case err == nil:
		h.said = ""
	case why == h.said:
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		h.said = why
		h.log.Error("this node cannot hold its unit's Lease: has gridmesh-health the right to get, create and update it (deploy/health)?", obs.KeyUnit, h.unit, obs.KeyErr, err)
	}
}

// lose is that it was not renewed in time: another one may have it.
func (h *holding) lose(err error) {
	h.log.Info("this node writes the verdicts of its unit no more", obs.KeyUnit, h.unit, obs.KeyErr, err)
	h.until = time.Time{}
	h.tell(time.Time{})
}

// release gives back what is held, so that nobody has to wait.
func (h *holding) release(ctx context.Context) {
	if h.until.IsZero() {
		return
	}
	h.tell(time.Time{})
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTry)
	defer cancel()
	if err := h.write(within, "", time.Second); err != nil {
		h.log.Info("the unit's Lease was not given back: another node waits until it is old", obs.KeyUnit, h.unit, obs.KeyErr, err)
	}
}
