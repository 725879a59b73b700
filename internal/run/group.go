package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Group is what lives and ends together: when one member ends, all end. The
// zero Group is empty and ready. It runs once, and is set up by one goroutine.
type Group struct {
	members   []member
	listeners []net.Listener
	ran       bool
}

type member struct {
	name string
	run  func(context.Context) error
	task bool // may end without an error
}

// The ways in which a member ends without saying why.
var (
	errEnded = errors.New("ended, though nobody had told it to")
	errRan   = errors.New("a group runs once")
)

// Add adds what serves until its context ends. When it returns earlier the
// group ends, and without an error too that is one, which names the member.
func (g *Group) Add(name string, run func(ctx context.Context) error) {
	g.members = append(g.members, member{name: name, run: run})
}

// AddTask adds what may finish: nil ends nothing, an error ends the group.
func (g *Group) AddTask(name string, run func(ctx context.Context) error) {
	g.members = append(g.members, member{name: name, run: run, task: true})
}

// AddListener adds what serves a listener, which is the group's from then on:
// it is closed as soon as the group is to end. What serve returns after that
// is not looked at. One of ListenUnix is kept at its path meanwhile.
func (g *Group) AddListener(name string, l net.Listener, serve func(ctx context.Context, l net.Listener) error) {
	g.listeners = append(g.listeners, l)
	g.Add(name, func(ctx context.Context) error { return ServeUntil(ctx, l, serve) })
}

// ServeUntil is what a Group does with a listener of AddListener, for a member whose
// listener comes late: it is closed when ctx ends, and one of ListenUnix is kept at its
// path until then. What serve returned is returned.
func ServeUntil(ctx context.Context, l net.Listener, serve func(ctx context.Context, l net.Listener) error) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	if socket, ok := l.(*unixListener); ok {
		defer socket.keeping(ctx)()
	}
	return serve(ctx, l)
}

// Close closes the listeners. It is for the group that never ran because
// something else could not begin; after Run it does nothing.
func (g *Group) Close() error {
	var errs []error
	for _, l := range g.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	g.listeners = nil
	return errors.Join(errs...)
}

// Run starts all members and returns when all have ended: nil when ctx ended
// or all were tasks that finished, else what ended the group first, wrapped
// with the member's name. A member that panics ends the process.
func (g *Group) Run(ctx context.Context) error {
	if g.ran {
		return errRan
	}
	g.ran = true
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	end := func(m member, err error) {
		if err == nil && m.task {
			return
		}
		if err == nil {
			err = errEnded
		}
		mu.Lock()
		defer mu.Unlock()
		// A member may have been handed another child of ctx, and see its end
		// before inner does.
		if ctx.Err() == nil && inner.Err() == nil {
			first = fmt.Errorf("%s: %w", m.name, err)
		}
		cancel()
	}
	for _, m := range g.members {
		wg.Go(func() { end(m, m.run(inner)) })
	}
	wg.Wait()
	return errors.Join(first, g.Close())
}
