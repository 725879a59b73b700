package source

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/topology"
)

// Timings of the socket.
const (
	sendTimeout = 10 * time.Second // a reader that does not read is let go
	beatEvery   = 5 * time.Second  // how often a reader is told of the last contact with the origin
	redial      = 200 * time.Millisecond
)

// Snapshots are what Serve sends: the newest one, and a wake-up for the next.
type Snapshots = latest.Value[*topology.Snapshot]

// Serve sends snapshots to everybody who connects: the whole first, then
// changed objects, each state ended by a Sync record; and when the last contact
// with their origin was. It returns when ctx ends and all connections are closed.
// The listener is run.Bound, which says how many there are, and outlives a lack of
// descriptors.
func Serve(ctx context.Context, l net.Listener, snapshots *Snapshots, lastContact func() time.Time) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept on feed socket: %w", err)
		}
		wg.Go(func() { serveOne(ctx, conn, snapshots, lastContact) })
	}
}

func serveOne(ctx context.Context, conn net.Conn, snapshots *Snapshots, lastContact func() time.Time) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	gone := make(chan struct{})
	go func() { // a reader says nothing; when its side closes, so do we
		_, _ = conn.Read(make([]byte, 1))
		close(gone)
	}()
	wake := snapshots.Wake()
	defer snapshots.Forget(wake)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	var w writer
	for {
		var err error
		select {
		case <-wake:
			_ = conn.SetWriteDeadline(time.Now().Add(sendTimeout))
			next, _ := snapshots.Get()
			err = w.state(conn, next, lastContact())
		case <-beat.C:
			_ = conn.SetWriteDeadline(time.Now().Add(sendTimeout))
			err = w.contact(lastContact())
		case <-gone:
			return
		}
		if err != nil {
			return // the reader connects again and starts from the whole
		}
	}
}

// writer is one reader's side of the socket.
type writer struct {
	e       *Encoder
	last    *topology.Snapshot
	partial bool
	dead    []string
	told    int64 // the last contact, in milliseconds since 1970
}

// state writes what leads from the last snapshot to the next.
func (w *writer) state(conn net.Conn, next *topology.Snapshot, lastContact time.Time) (err error) {
	if w.e == nil {
		if w.e, err = NewEncoder(conn); err == nil {
			err = w.e.Snapshot(next)
		}
	} else {
		err = w.e.change(w.last, next)
	}
	if err == nil && next.Partial != w.partial {
		err = w.e.Encode(Record{Partial: &next.Partial})
	}
	if err == nil && !slices.Equal(next.Dead, w.dead) {
		dead := append([]string{}, next.Dead...) // none is said, too
		err = w.e.Encode(Record{Dead: &dead})
	}
	if err == nil {
		err = w.e.Sync()
	}
	if err != nil {
		return err
	}
	w.last, w.partial, w.dead = next, next.Partial, next.Dead
	return w.contact(lastContact)
}

// contact writes when the last contact with the origin was, where that is not
// what the reader was told before.
func (w *writer) contact(at time.Time) error {
	now := at.UnixMilli()
	if w.e == nil || at.IsZero() || now == w.told {
		return nil
	}
	w.told = now
	if err := w.e.Encode(Record{LastContact: &now}); err != nil {
		return err
	}
	return w.e.flush()
}

// change writes what leads from one snapshot to the next.
func (e *Encoder) change(a, b *topology.Snapshot) error {
	if err := e.Encode(Record{CIDRs: &b.ServiceCIDRs}); err != nil {
		return err
	}
	for name := range a.Nodes.Changed(b.Nodes) {
		r := Record{DeleteNode: &name}
		if n, ok := b.Nodes.Get(name); ok {
			r = Record{Node: n}
		}
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	// A slice may move to another Service: what left goes before what came.
	for _, part := range []func(was, is *topology.Entry) []Record{left, came} {
		for key := range a.Services.Changed(b.Services) {
			for _, r := range part(entry(a, key), entry(b, key)) {
				if err := e.Encode(r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func entry(s *topology.Snapshot, key topology.ObjectKey) *topology.Entry {
	if e, ok := s.Services.Get(key); ok {
		return e
	}
	return &topology.Entry{}
}

// left is what an entry no longer has.
func left(was, is *topology.Entry) []Record {
	var records []Record
	if was.Service != nil && is.Service == nil {
		records = append(records, Record{DeleteService: &was.Service.Key})
	}
	kept := map[topology.ObjectKey]bool{}
	for _, s := range is.Slices {
		kept[s.Key] = true
	}
	for _, s := range was.Slices {
		if !kept[s.Key] {
			records = append(records, Record{DeleteSlice: &s.Key})
		}
	}
	return records
}

// came is what an entry has anew.
func came(was, is *topology.Entry) []Record {
	var records []Record
	if is.Service != nil && is.Service != was.Service {
		records = append(records, Record{Service: is.Service})
	}
	kept := map[*topology.Slice]bool{}
	for _, s := range was.Slices {
		kept[s] = true
	}
	for _, s := range is.Slices {
		if !kept[s] {
			records = append(records, Record{Slice: s})
		}
	}
	return records
}

// Socket is a source fed by Serve in another process.
type Socket struct {
	Snapshots
	path string
}

// NewSocket connects to path on Run.
func NewSocket(path string) *Socket { return &Socket{path: path} }

// Run follows the socket until ctx ends; while nobody serves it, the last
// snapshot stays.
func (s *Socket) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		s.follow(ctx)
		select {
		case <-time.After(redial):
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *Socket) follow(ctx context.Context) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.path)
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	d, err := NewDecoder(conn)
	if err != nil {
		return
	}
	b, partial, dead := topology.NewBuilder(), false, []string(nil)
	for {
		r, err := d.Decode()
		if err != nil {
			return
		}
		switch {
		case r.Sync != nil:
			snap := b.Build()
			snap.Partial = partial
			s.Publish(snap.WithDead(dead))
		case r.Partial != nil:
			partial = *r.Partial
		case r.Dead != nil:
			dead = *r.Dead
		case r.LastContact != nil:
			s.Contacted(time.UnixMilli(*r.LastContact))
		default:
			apply(b, r)
		}
	}
}
