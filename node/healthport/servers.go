package healthport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
)

// Servers answer at every place there is. They have one server, so that what all who
// ask may cost is bounded together, however many ports there are.
type Servers struct {
	healthy func() bool
	within  []netip.Prefix
	bounds  Bounds
	log     *slog.Logger
	lack    *run.Lack
	listen  func(network, address string) (net.Listener, error)
	answers atomic.Pointer[map[Place]Answer]

	accepted  chan net.Conn
	ended     chan struct{}
	accepting sync.WaitGroup

	mu     sync.Mutex
	open   map[Place]net.Listener // nil from the end on
	failed map[Place]error        // where nobody listens who should
}

// New makes Servers that ask healthy whether what serves the node is as it should be, and
// answer at its addresses within these ranges; at all of them where there are none.
func New(healthy func() bool, within []netip.Prefix, bounds Bounds, log *slog.Logger) *Servers {
	s := &Servers{
		healthy: healthy, within: within, bounds: bounds, log: log, lack: run.NewLack(log), listen: net.Listen,
		accepted: make(chan net.Conn), ended: make(chan struct{}), open: map[Place]net.Listener{}, failed: map[Place]error{},
	}
	s.answers.Store(&map[Place]Answer{})
	return s
}

// Run answers until ctx ends, and closes what was opened.
func (s *Servers) Run(ctx context.Context) error {
	err := run.ServeHTTP(s)(ctx, run.BoundTo(all{s}, s.bounds.conns, s.log))
	s.end()
	s.accepting.Wait()
	return err
}

// Serve has these places answered, and no others, and says where that fails: what failed
// before is not tried again. What is given is not to be changed any more.
func (s *Servers) Serve(want map[Place]Answer) []topology.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil
	}
	s.answers.Store(&want)
	for place, l := range s.open {
		if _, ok := want[place]; !ok {
			_ = l.Close()
			delete(s.open, place)
		}
	}
	maps.DeleteFunc(s.failed, func(place Place, _ error) bool { _, ok := want[place]; return !ok })
	for place := range want {
		if s.open[place] == nil && s.failed[place] == nil {
			s.begin(place)
		}
	}
	return s.failures()
}

// Again tries what failed, and says where it still does.
func (s *Servers) Again() []topology.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil
	}
	for place := range s.failed {
		s.begin(place)
	}
	return s.failures()
}

// begin listens at a place.
func (s *Servers) begin(place Place) {
	l, err := s.listen(place.network(), fmt.Sprintf(":%d", place.Port))
	if err != nil {
		s.failed[place] = err
		return
	}
	delete(s.failed, place)
	s.open[place] = l
	s.accepting.Go(func() { s.lost(place, l, s.accept(l)) })
}

// failures are Problems of where nobody is answered. On a node without a family nobody
// asks there.
func (s *Servers) failures() (list []topology.Problem) {
	want := *s.answers.Load()
	for _, place := range slices.SortedFunc(maps.Keys(s.failed), comparePlaces) {
		if err := s.failed[place]; !errors.Is(err, unix.EAFNOSUPPORT) {
			list = append(list, problem(want[place].Service, "load balancers get no answer on this node, and may send it nobody (%v): see who has the port there (ss -ltnp), or give the Service another; it is tried again", err))
		}
	}
	return list
}

func comparePlaces(a, b Place) int {
	if a.Port != b.Port {
		return int(a.Port) - int(b.Port)
	}
	return compare(a.IPv6, b.IPv6)
}

// accept hands on what one listener accepts until that is closed, or fails.
func (s *Servers) accept(l net.Listener) error {
	for {
		conn, err := s.lack.Accept(l, s.ended)
		if err != nil {
			return err
		}
		if !s.answersAt(conn.LocalAddr()) {
			_ = conn.Close()
			continue
		}
		select {
		case s.accepted <- conn:
		case <-s.ended:
			_ = conn.Close()
		}
	}
}

// lost notes that a listener of a place accepts no more, if it was not closed by us: it
// is opened again.
func (s *Servers) lost(place Place, l net.Listener, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil && s.open[place] == l {
		_ = l.Close()
		delete(s.open, place)
		s.failed[place] = err
	}
}

// answersAt reports whether an address of the node is one of those. A listener is at all
// of them, for they come and go.
func (s *Servers) answersAt(local net.Addr) bool {
	at, ok := local.(*net.TCPAddr)
	return ok && (len(s.within) == 0 || slices.ContainsFunc(s.within, func(p netip.Prefix) bool { return p.Contains(at.AddrPort().Addr().Unmap()) }))
}

// end closes every listener; it may be called again.
func (s *Servers) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return
	}
	for _, l := range s.open {
		_ = l.Close()
	}
	s.open = nil
	close(s.ended)
}

// body is what is answered, as kube-proxy has it.
type body struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints int  `json:"localEndpoints"`
	Healthy        bool `json:"serviceProxyHealthy"`
}

// ServeHTTP implements http.Handler: 200 where there are endpoints of this node, and what
// serves it is well; whatever is asked for.
func (s *Servers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Connection", "close") // its place is for who asks next
	a, ok := s.answer(r)
	if !ok { // its Service went this moment
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b := body{LocalEndpoints: a.Local, Healthy: s.healthy()}
	b.Service.Namespace, b.Service.Name = a.Service.Namespace, a.Service.Name
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(a.Local))
	if a.Local == 0 || !b.Healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(b)
}

// answer is that of the place where a request arrived.
func (s *Servers) answer(r *http.Request) (Answer, bool) {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return Answer{}, false
	}
	addr := at.AddrPort()
	a, ok := (*s.answers.Load())[Place{addr.Port(), addr.Addr().Unmap().Is6()}]
	return a, ok
}

// all is one listener of what every one accepts.
type all struct{ *Servers }

// Accept implements net.Listener.
func (l all) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l all) Close() error {
	l.end()
	return nil
}

// Addr implements net.Listener.
func (all) Addr() net.Addr { return &net.TCPAddr{} }
