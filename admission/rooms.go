package admission

import (
	"context"
	"net/http"
	"net/netip"
	"sync"

	"github.com/gridmesh/gridmesh/internal/run"
)

// rooms are places in which calls are, of each peer no more than a share: who takes his whole
// share keeps nobody else out.
type rooms struct {
	all  chan struct{}
	each int

	mu sync.Mutex
	of map[string]*share
}

// share is what a peer has.
type share struct {
	taken chan struct{}
	users int // who are in it or wait
}

func newRooms(all, each int) *rooms {
	return &rooms{all: make(chan struct{}, all), each: each, of: map[string]*share{}}
}

// enter waits for a place of a peer's; without one before ctx ends it returns nil.
func (r *rooms) enter(ctx context.Context, peer string) (leave func()) {
	s := r.use(peer)
	for i, places := range []chan struct{}{s.taken, r.all} {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-s.taken
			}
			r.unuse(peer, s)
			return nil
		}
	}
	return func() {
		<-r.all
		<-s.taken
		r.unuse(peer, s)
	}
}

func (r *rooms) use(peer string) *share {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of[peer]
	if s == nil {
		s = &share{taken: make(chan struct{}, r.each)}
		r.of[peer] = s
	}
	s.users++
	return s
}

func (r *rooms) unuse(peer string, s *share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(r.of, peer)
	}
}

// peerOf is who calls, as the listener has it.
func peerOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return run.PeerAt(from.Addr())
}
