package xds

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/xds/render"
)

// Limits of what is kept of refusals, whatever Envoys send.
const (
	maxNacks  = 1000 // more are counted only
	maxReason = 1024 // bytes of Envoy's words
)

// defaultMaxOnDemand is about 210 MiB of an Envoy's memory, with the endpoints that
// they may have together.
const defaultMaxOnDemand = 4000

// Config wires a Server.
type Config struct {
	Log     *slog.Logger
	Metrics *Metrics
	// MaxOnDemand bounds the clusters that one Envoy gets because it asked for
	// them by name, and ten times that their endpoints: it never lets go of one. What it
	// keeps for the kernel has what those leave, and an eighth of it in any case. 0 means 4000.
	MaxOnDemand int
	// Asked gets the clusters that Envoy asked for by name; it must not block.
	Asked func(clusters []string)
	// Refused gets each resource that Envoy refused, once; it must not block.
	Refused func(Nack)
}

// Server is a delta ADS server. Streams wait until the first Update: an Envoy
// that reconnects must not be told that everything is gone.
type Server struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	cfg   Config
	ready chan struct{}

	mu      sync.Mutex
	catalog *render.Catalog
	streams map[*stream]struct{}
	came    chan struct{} // ends with the next of them
	nacks   map[resourceID]*refusal
	full    bool // that there are too many refusals for the list was said
}

type resourceID struct{ typeURL, name string }

// refusal is a Nack, and whose it is: it is over with the last of them.
type refusal struct {
	Nack
	by map[*stream]bool
}

// Nack is a resource that Envoy refused, until it takes it, it changes, or Envoy goes.
type Nack struct {
	Type    string    `json:"type"`
	Name    string    `json:"name"`
	Service string    `json:"service,omitempty"` // namespace/name, "" where none stands behind it
	Reason  string    `json:"reason"`            // Envoy's own words
	At      time.Time `json:"at"`
}

// Stream describes a connected Envoy.
type Stream struct {
	Node      string    `json:"node"`
	Version   string    `json:"version"`
	Since     time.Time `json:"since"`
	Clusters  int       `json:"clusters"` // held, by ADS's account
	Endpoints int       `json:"endpoints"`
	// Over are the clusters that it asked for and did not get, for it has as
	// many as it may.
	Over int `json:"over,omitempty"`
	// Kept are the clusters that it goes on with while the kernel may hand it connections to
	// them, though nothing needs them any more.
	Kept int `json:"kept,omitempty"`
	// Part is how many endpoints each cluster has at most that it asked for, because
	// all of them have too many together; 0 where each has all of its own.
	Part int `json:"part,omitempty"`
	// Cut are the clusters that have more than that.
	Cut int `json:"cut,omitempty"`
	// MaxConnections is how many connections of clients it takes, by its
	// bootstrap; 0 where nothing bounds them.
	MaxConnections int `json:"maxConnections,omitempty"`
}

// New returns a server without a catalog.
func New(cfg Config) *Server {
	if cfg.Asked == nil {
		cfg.Asked = func([]string) {}
	}
	if cfg.MaxOnDemand == 0 {
		cfg.MaxOnDemand = defaultMaxOnDemand
	}
	if cfg.Refused == nil {
		cfg.Refused = func(Nack) {}
	}
	return &Server{cfg: cfg, ready: make(chan struct{}), streams: map[*stream]struct{}{}, came: make(chan struct{}), nacks: map[resourceID]*refusal{}}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(g *grpc.Server) { discovery.RegisterAggregatedDiscoveryServiceServer(g, s) }

// Update makes cat the current catalog and lets every stream look at what changed.
func (s *Server) Update(cat *render.Catalog, changed render.Changed) {
	s.mu.Lock()
	first := s.catalog == nil
	// What a provisional catalog, or one that keeps, passed over has to be looked at now.
	all := !first && (s.catalog.Provisional && !cat.Provisional || s.catalog.Keeps && !cat.Keeps)
	s.catalog = cat
	for st := range s.streams {
		st.mark(changed, all)
	}
	for typeURL, names := range changed {
		for _, name := range names {
			delete(s.nacks, resourceID{typeURL, name})
		}
	}
	s.mu.Unlock()
	if first {
		close(s.ready)
	}
}

// Streams returns the connected Envoys, in the order in which they came.
func (s *Server) Streams() []Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Stream
	for st := range s.streams {
		list = append(list, st.describe())
	}
	slices.SortFunc(list, func(a, b Stream) int { return a.Since.Compare(b.Since) })
	return list
}

// ClientShare is how many connections one client may hold: a quarter of what
// the connected Envoys take, of the smallest of them; 0 where none is bounded.
// all is what they take together, for nothing tells whose a connection is; 0
// where one of them is not bounded, or none is connected.
func (s *Server) ClientShare() (share, all int) {
	unbounded := false
	for _, st := range s.Streams() {
		if n := (st.MaxConnections + 3) / 4; n > 0 && (share == 0 || n < share) {
			share = n
		}
		all += st.MaxConnections
		unbounded = unbounded || st.MaxConnections == 0
	}
	if unbounded {
		all = 0
	}
	return share, all
}

// Nacks returns what Envoy refuses at the moment, by type and name.
func (s *Server) Nacks() []Nack {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Nack, 0, len(s.nacks))
	for _, n := range s.nacks {
		list = append(list, n.Nack)
	}
	slices.SortFunc(list, func(a, b Nack) int { return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name)) })
	return list
}

// DeltaAggregatedResources serves one Envoy until its stream ends.
func (s *Server) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	select {
	case <-s.ready:
	case <-g.Context().Done():
		return g.Context().Err()
	}
	st := newStream(s, g)
	s.mu.Lock()
	s.streams[st] = struct{}{}
	close(s.came)
	s.came = make(chan struct{})
	s.mu.Unlock()
	s.cfg.Metrics.streams.Inc()
	defer func() {
		s.mu.Lock()
		delete(s.streams, st)
		for id := range s.nacks {
			s.over(st, id)
		}
		s.mu.Unlock()
		s.cfg.Metrics.streams.Dec()
		was := st.describe()
		s.cfg.Metrics.over.Sub(float64(was.Over))
		s.cfg.Metrics.cut.Sub(float64(was.Cut))
	}()
	return st.run()
}

func (s *Server) current() *render.Catalog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalog
}

// refused notes what Envoy does not take. It is said once, and not at every retry.
func (s *Server) refused(st *stream, typeURL, name, reason string) {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + " …"
	}
	n := Nack{Type: short(typeURL), Name: name, Reason: reason, At: time.Now()}
	if service, ok := s.current().ServiceOf(typeURL, name); ok {
		n.Service = service.String()
	}
	id := resourceID{typeURL, name}
	s.mu.Lock()
	before, repeated := s.nacks[id]
	full := !repeated && len(s.nacks) >= maxNacks
	said := s.full && len(s.nacks) >= maxNacks
	s.full = said || full
	by := map[*stream]bool{}
	if repeated {
		by = before.by
	}
	repeated = repeated && before.Reason == reason
	if repeated {
		n.At = before.At
	}
	if !full {
		by[st] = true
		s.nacks[id] = &refusal{n, by}
	}
	s.mu.Unlock()
	if full && !said {
		s.cfg.Log.Error("Envoy refuses more resources than are listed; the metric counts them all", obs.KeyType, n.Type, obs.KeyName, name)
	}
	if repeated || full {
		return
	}
	s.cfg.Log.Error("Envoy refused a resource; what it held before stays in force",
		obs.KeyType, n.Type, obs.KeyName, name, obs.KeyService, n.Service, obs.KeyReason, reason)
	s.cfg.Refused(n)
}

// accepted forgets refusals that are over.
func (s *Server) accepted(st *stream, typeURL string, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.over(st, resourceID{typeURL, name}) {
			s.cfg.Log.Info("Envoy took a resource that it had refused", obs.KeyType, short(typeURL), obs.KeyName, name)
		}
	}
}

// over ends a stream's refusal, and reports whether it was one and the last.
func (s *Server) over(st *stream, id resourceID) bool {
	n := s.nacks[id]
	if n == nil || !n.by[st] {
		return false
	}
	if delete(n.by, st); len(n.by) > 0 {
		return false
	}
	delete(s.nacks, id)
	return true
}
