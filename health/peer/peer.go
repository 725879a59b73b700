package peer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

// Node is who answers others. Its methods are called from many goroutines at once.
type Node interface {
	// Report takes what another node sees, and replies (vote.Machine.Reply).
	Report(ctx context.Context, r vote.Reported) vote.Reply
	// Probe checks other nodes of the unit, 100 at most, and says what it finds
	// (vote.Machine.Answers). Its context ends when nobody waits any more.
	Probe(ctx context.Context, nodes []string) []vote.Result
	// Adopt is told, where this node reported that it has no uplink, who is in the unit by the
	// word of a node that has one, and knows others. Sorted by name.
	Adopt(ctx context.Context, from string, members []Member)
	// Elsewhere is told that what a node of the unit signed came, and just now, from an address that
	// no node of it has. It did not count.
	Elsewhere(ctx context.Context, node string, at netip.Addr)
	// Local is what this node found of others last, for GET /localinfo.
	Local() map[string]bool
}

// Peer is this node's end of the exchange.
type Peer struct {
	cfg     Config
	node    Node
	log     *slog.Logger
	metrics *metrics
	client  *http.Client
	now     func() time.Time

	unit   atomic.Pointer[unit]
	keys   atomic.Pointer[[]key]
	clock  clock         // this node's own
	away   chan struct{} // room for requests that are under way to others
	asking chan struct{} // room for questions of others of the unit
	asked  chan struct{} // and for those that nobody signed

	trusted, doubted chan struct{} // turns of signatures that are looked at (rate.go)

	mu      sync.Mutex
	clocks  map[string]theirs  // of others, by name
	senders map[string]*sender // by name: who was heard of the unit
	sources map[string]*bucket // by name; all who are at no node's address have one
	spoke   map[string]spoken  // SuperEdge's nodes, by name
	logged  map[told]time.Time // refusals
}

// How much there is at once: requests to others, as one that leads asks the whole unit, and
// questions of others, each of which dials up to a hundred nodes.
const (
	mostAway   = 1024
	mostAsking = 16
)

// New makes a Peer that knows neither unit nor keys, and refuses everything until it does.
func New(cfg Config, node Node, log *slog.Logger, r prometheus.Registerer) (*Peer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("exchange of node health: %w", err)
	}
	return newPeer(cfg, node, log, newMetrics(r), time.Now), nil
}

func newPeer(cfg Config, node Node, log *slog.Logger, m *metrics, now func() time.Time) *Peer {
	p := &Peer{
		cfg: cfg, node: node, log: log, metrics: m, now: now, clock: clock{random(), now()},
		away: make(chan struct{}, mostAway), asking: make(chan struct{}, mostAsking), asked: make(chan struct{}, mostAsking), trusted: make(chan struct{}, 1), doubted: make(chan struct{}, 1),
		clocks: map[string]theirs{}, senders: map[string]*sender{}, sources: map[string]*bucket{}, spoke: map[string]spoken{}, logged: map[told]time.Time{},
	}
	p.keys.Store(&[]key{})
	p.client = p.newClient()
	return p
}

// SetUnit says who is in the unit, whenever that changes. What is known of who is not is
// forgotten, but for what could still be sent again.
func (p *Peer) SetUnit(u Unit) {
	next := newUnit(u)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unit.Store(next)
	here := p.clock.at(p.now())
	for name, s := range p.senders {
		if s.age(here); !next.has(name) && len(s.seen) == 0 {
			delete(p.senders, name)
		}
	}
	for name := range p.clocks {
		if !next.has(name) {
			delete(p.clocks, name)
		}
	}
	for name := range p.spoke {
		if !next.has(name) {
			delete(p.spoke, name)
		}
	}
	for name := range p.sources {
		if !next.has(name) && name != nobody && name != onNode {
			delete(p.sources, name)
		}
	}
	for t := range p.logged {
		if !next.has(t.node) && t.node != nobody {
			delete(p.logged, t)
		}
	}
}

// SetKeys says which keys there are, whenever that changes: none, one, or two, of which the
// first signs. With an error nothing changes.
func (p *Peer) SetKeys(raw ...[]byte) error {
	keys, err := newKeys(raw)
	if err != nil {
		return fmt.Errorf("keys of node health: %w", err)
	}
	if len(keys) == 0 {
		p.log.Warn("node health is not exchanged: there is no key", obs.KeyWhy, refusals[noKey].cure)
	}
	for i, r := range raw {
		if why := Weak(r); why != "" {
			p.log.Warn("anybody may speak in the name of nodes: the key of node health is weak", obs.KeyWhich, i+1, obs.KeyWhy, why)
		}
	}
	p.keys.Store(&keys)
	return nil
}

// Limits of a listener: who leads asks a node some questions at once, behind NAT many have one
// address, and a flood from a node's address is to leave room for the node itself.
const (
	mostConns      = 512
	mostConnsEach  = 128
	mostConnsOfNAT = 256
)

// Run serves others on a listener, which it bounds and closes, until its context ends.
func (p *Peer) Run(ctx context.Context, l net.Listener) error {
	each := mostConnsEach
	if p.cfg.NAT {
		each = mostConnsOfNAT
	}
	return run.ServeHTTP(p.Handler())(ctx, run.BoundTo(l, run.Limits{InAll: mostConns, OfPeer: each}, p.log))
}

// sender is what is remembered of a node of the unit.
func (p *Peer) sender(name string) *sender {
	s := p.senders[name]
	if s == nil {
		s = &sender{}
		p.senders[name] = s
	}
	return s
}

// take notes a request of a node of the unit that counts, or says why it is none.
func (p *Peer) take(m request) refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	s := p.sender(m.From)
	s.signed = true
	if !p.clock.counts(now, m.Epoch, m.Sent) {
		return clockOff
	}
	return s.take(p.clock.at(now), m.nonce(), m.Sent, mostSeen(len(p.unit.Load().Addrs)))
}

// isOurs reports whether a node ever signed as ours.
func (p *Peer) isOurs(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.senders[name]
	return s != nil && s.signed
}

// saidEvery is how often a reason is logged for a node.
const saidEvery = time.Hour

// told is a refusal that was logged: of a node of the unit, or of nobody of it.
type told struct {
	why  refusal
	node string
}

// refuse counts a refusal, and logs it where people can do something about it, now and then. What
// is refused is named by its sender, who may say what it likes; how often it is told goes by who is at
// the address from, or, where none of the unit is, by that name if it is one of it.
func (p *Peer) refuse(why refusal, u *unit, sender string, from netip.Addr) {
	p.metrics.refused.WithLabelValues(string(why)).Inc()
	cure := refusals[why].cure
	if cure == "" {
		return
	}
	t := told{why: why}
	if u != nil {
		if t.node = u.byAddr[from]; t.node == nobody && u.has(sender) {
			t.node = sender
		}
	}
	p.mu.Lock()
	at := p.now()
	last, said := p.logged[t]
	if said = said && at.Sub(last) < saidEvery; !said {
		p.logged[t] = at
	}
	p.mu.Unlock()
	if !said {
		p.log.Warn("a message about node health is refused", obs.KeyNode, cmp.Or(sender, t.node), obs.KeyAddr, from, obs.KeyReason, string(why), obs.KeyWhy, cure)
	}
}
