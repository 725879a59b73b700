package capture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// A look at conntrack takes a while where it has many flows: there is one at a time,
// and after each a pause, longer where it took long. What changes meanwhile is the
// next one's, all of it at once. One that failed is tried again by Repair.
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
	todo      plan.UDPServing
	looking   context.CancelFunc // nil: nobody looks
	rest      time.Time          // until when nobody does
	err       error              // of the last look
	ended     sync.WaitGroup
	abandoned abandonment // of TCP, while the kernel serves in the place of Envoy
}

func newFlows(report func(error)) *flows {
	c := newConntrack(unix.NFNL_SUBSYS_CTNETLINK)
	return &flows{
		dial:   func() (*nl.Conn, error) { return nl.Dial(unix.NETLINK_NETFILTER, nil) },
		forget: c.forget, report: report, todo: plan.UDPServing{},
		abandoned: abandonment{forget: c.forgetAbandoned},
	}
}

// tell takes frontends of UDP whose flows may be stale, and returns at once.
func (f *flows) tell(udp plan.UDPServing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(f.todo, udp)
	if f.err == nil {
		f.start()
	}
}

// again begins anew after a look that failed, and returns why it did; nil where conntrack
// cannot be asked, which is reported.
func (f *flows) again() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil && !time.Now().Before(f.rest) {
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
		f.note(fmt.Errorf("open conntrack: %w", err), 0)
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
	for _, serving := range f.todo {
		if len(serving) > 0 {
			return false
		}
	}
	clear(f.todo)
	return true
}

// look looks until there is nothing to do, or it fails.
func (f *flows) look(ctx context.Context, conn *nl.Conn) {
	for {
		f.mu.Lock()
		rest := time.Until(f.rest)
		f.mu.Unlock()
		if rest > 0 {
			select {
			case <-time.After(rest):
			case <-ctx.Done():
			}
		}
		todo, ok := f.take(ctx)
		if !ok {
			return
		}
		begin := time.Now()
		more, err := f.forget(conn, todo)
		if !f.done(todo, more, err, time.Since(begin)) {
			return
		}
	}
}

// take takes all there is to do, and ends the look where that is nothing.
func (f *flows) take(ctx context.Context) (todo plan.UDPServing, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.nothing() {
		f.looking = nil
		return nil, false
	}
	todo, f.todo = f.todo, plan.UDPServing{}
	return todo, true
}

// done notes a look, and reports whether there is to be another. What it left is to
// do, but for what was told since.
func (f *flows) done(todo plan.UDPServing, more bool, err error, took time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if more || err != nil {
		maps.Copy(todo, f.todo)
		f.todo = todo
	}
	f.note(err, took)
	if err != nil || f.nothing() {
		f.looking = nil
	}
	return f.looking != nil
}

func (f *flows) note(err error, took time.Duration) {
	pause := flowsEffort * took
	if err != nil {
		pause = longestPause
	}
	f.err, f.rest = err, time.Now().Add(min(max(pause, flowsPause), longestPause))
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
	f.todo = plan.UDPServing{}
	if f.looking != nil {
		f.looking()
	}
	f.mu.Unlock()
	f.abandoned.stop()
	f.ended.Wait()
	f.abandoned.ended.Wait()
}
