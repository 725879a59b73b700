package capture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// A look at conntrack takes a while where it has many flows: there is one at a time,
// and after each a pause, longer where it took long. What changes meanwhile is the
// next one's, all of it at once; it waits for the short pause alone, once in a long one, so
// that nobody sends to who is gone for longer. What changed is looked for again after the long
// pause: a packet that was on its way has a flow that nobody could see. One that failed is
// tried again by Repair.
const (
	flowsPause   = 500 * time.Millisecond
	flowsEffort  = 10 // of which a look may take one
	longestPause = 10 * time.Second
)

// flows has conntrack forget UDP flows to endpoints that serve no longer. It is told
// by its owner and looks beside it: nothing that is written waits for conntrack.
type flows struct {
	dial   func() (*nl.Conn, error) // in the network of who calls
	forget func(*nl.Conn, plan.UDPServing) (more bool, err error)
	report func(err error) // that conntrack cannot be asked, for good; nil: it can

	mu        sync.Mutex
	todo      plan.UDPServing         // told, and not looked for yet
	later     plan.UDPServing         // to be looked for again
	early     map[netip.AddrPort]bool // looked for before rest was over
	looking   context.CancelFunc      // nil: nobody looks
	told      chan struct{}           // there is more to do
	soon      time.Time               // until when nobody looks
	rest      time.Time               // until when nobody does but for what was told since
	err       error                   // of the last look
	ended     sync.WaitGroup
	abandoned abandonment // of TCP, while the kernel serves in the place of Envoy
}

func newFlows(report func(error)) *flows {
	c := newConntrack(unix.NFNL_SUBSYS_CTNETLINK)
	return &flows{
		dial:   func() (*nl.Conn, error) { return nl.Dial(unix.NETLINK_NETFILTER, nil) },
		forget: c.forget, report: report, told: make(chan struct{}, 1),
		todo: plan.UDPServing{}, later: plan.UDPServing{}, early: map[netip.AddrPort]bool{},
		abandoned: abandonment{forget: c.forgetAbandoned},
	}
}

// tell takes frontends of UDP whose flows may be stale, and returns at once.
func (f *flows) tell(udp plan.UDPServing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for front, serving := range udp {
		f.todo[front] = serving
		delete(f.later, front)
	}
	if f.err == nil {
		f.start()
	}
	select {
	case f.told <- struct{}{}:
	default:
	}
}

// again begins anew after a look that failed, and returns why it did; nil where conntrack
// cannot be asked, which is reported. Where nothing is left to look for, none has failed.
func (f *flows) again() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil && !time.Now().Before(f.rest) {
		if f.looking == nil && f.nothing() {
			f.err = nil
			f.report(nil)
		}
		f.start()
	}
	if errors.Is(f.err, errNoConntrack) {
		return nil
	}
	return f.err
}

// start has somebody look, where there is something to look for.
func (f *flows) start() {
	if f.looking != nil || f.nothing() {
		return
	}
	conn, err := f.dial()
	if err != nil {
		f.note(look{err: fmt.Errorf("open conntrack: %w", err)})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.looking = cancel
	f.ended.Go(func() {
		defer cancel()
		f.look(ctx, conn)
		_ = conn.Close()
	})
}

// nothing reports whether there is nothing to do, and forgets what is nothing: a
// frontend without endpoints only takes the place of what was told of it before.
func (f *flows) nothing() bool {
	none := func(_ netip.AddrPort, serving []netip.AddrPort) bool { return len(serving) == 0 }
	maps.DeleteFunc(f.todo, none)
	return len(f.todo)+len(f.later) == 0
}

// due is when to look next.
func (f *flows) due() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	for front, serving := range f.todo {
		if len(serving) > 0 && !f.early[front] {
			return f.soon
		}
	}
	return f.rest
}

// look looks until there is nothing to do, or it fails.
func (f *flows) look(ctx context.Context, conn *nl.Conn) {
	for {
		for wait := time.Until(f.due()); wait > 0 && ctx.Err() == nil; wait = time.Until(f.due()) {
			select {
			case <-time.After(wait):
			case <-f.told:
			case <-ctx.Done():
			}
		}
		l, ok := f.take(ctx)
		if !ok {
			return
		}
		begin := time.Now()
		l.more, l.err = f.forget(conn, l.all)
		if l.took = time.Since(begin); !f.done(l) {
			return
		}
	}
}

// look is one at conntrack.
type look struct {
	all, first plan.UDPServing // what is looked for, and what of it was not before
	early      bool            // the long pause is not over
	more       bool            // there may be
	err        error
	took       time.Duration
}

// take takes all there is to do, and ends the look where that is nothing.
func (f *flows) take(ctx context.Context) (l look, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.nothing() {
		f.looking = nil
		return l, false
	}
	l.first, f.todo = f.todo, plan.UDPServing{}
	l.all, l.early = maps.Clone(l.first), time.Now().Before(f.rest)
	if !l.early {
		maps.Copy(l.all, f.later)
		clear(f.later)
		clear(f.early)
		return l, true
	}
	for front := range l.first {
		f.early[front] = true
	}
	return l, true
}

// done notes a look, and reports whether there is to be another: of what it was the first
// for, and where it left something of all, but for what was told since.
func (f *flows) done(l look) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := l.first
	if l.more || l.err != nil {
		left = l.all
	}
	for front, serving := range left {
		if _, told := f.todo[front]; !told {
			f.later[front] = serving
		}
	}
	f.note(l)
	if l.err != nil || f.nothing() {
		f.looking = nil
	}
	return f.looking != nil
}

func (f *flows) note(l look) {
	now, pause := time.Now(), min(max(flowsEffort*l.took, flowsPause), longestPause)
	f.err, f.soon = l.err, now.Add(max(flowsPause, 2*l.took)) // early ones take a third of the time at most
	switch {
	case l.err != nil:
		f.soon = now.Add(longestPause)
		f.rest = f.soon
	case !l.early:
		f.rest = now.Add(pause)
	case f.rest.Before(f.soon):
		f.rest = f.soon
	}
	err := l.err
	if !errors.Is(err, errNoConntrack) {
		err = nil
	}
	f.report(err)
}

// stop ends the look, and waits for it.
func (f *flows) stop() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.todo, f.later = plan.UDPServing{}, plan.UDPServing{}
	if f.looking != nil {
		f.looking()
	}
	f.mu.Unlock()
	f.abandoned.stop()
	f.ended.Wait()
	f.abandoned.ended.Wait()
}
