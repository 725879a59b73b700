package xds

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gridmesh/gridmesh/xds/render"
	"github.com/gridmesh/gridmesh/xds/xdstest"
)

// peer is a model of an Envoy at the other end of a stream without a network:
// what it asked for, what it was sent and has not answered, what it holds.
type peer struct {
	t       testing.TB
	c       *cluster
	stream  *stream
	types   map[string]*peerType
	owed    map[string]bool // held clusters that were sent; their endpoints must follow
	churned int
	see     func(*discovery.DeltaDiscoveryResponse) // what comes; nil for nobody
}

type peerType struct {
	started  bool
	wildcard bool
	names    map[string]bool
	held     map[string]string
	queue    []queued
}

// queued is a response that the peer has not looked at yet.
type queued struct {
	*discovery.DeltaDiscoveryResponse
	ignore map[string]bool // given back after it was sent
}

// link is the server's end of the stream.
type link struct {
	grpc.ServerStream
	send func(*discovery.DeltaDiscoveryResponse)
}

func (l link) Context() context.Context { return context.Background() }

func (l link) Recv() (*discovery.DeltaDiscoveryRequest, error) { panic("the model hands requests in") }

func (l link) Send(r *discovery.DeltaDiscoveryResponse) error { l.send(r); return nil }

func newPeer(t testing.TB, c *cluster) *peer {
	p := &peer{t: t, c: c, types: map[string]*peerType{}}
	for _, typeURL := range sendOrder {
		p.types[typeURL] = &peerType{names: map[string]bool{}, held: map[string]string{}}
	}
	p.connect()
	return p
}

// connect opens a stream, with what an earlier one brought.
func (p *peer) connect() {
	p.stream, p.owed = newStream(p.c.server, link{send: p.receive}), map[string]bool{}
	p.stream.known = true
	p.c.server.streams = map[*stream]struct{}{p.stream: {}}
	for _, typeURL := range sendOrder {
		pt := p.types[typeURL]
		pt.queue = nil
		pt.started = pt.started && (pt.wildcard || len(pt.names) > 0) // an empty first request would be a wildcard
		if !pt.started {
			continue
		}
		names := slices.Sorted(maps.Keys(pt.names))
		if pt.wildcard && (len(names) > 0 || typeURL == render.EndpointType) {
			names = append(names, "*")
		}
		p.send(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names, InitialResourceVersions: maps.Clone(pt.held)})
	}
}

func (p *peer) send(r *discovery.DeltaDiscoveryRequest) {
	p.t.Helper()
	if err := p.stream.request(r); err != nil && status.Code(err) != codes.ResourceExhausted {
		p.t.Fatalf("%v: %v", r, err)
	}
	p.flush()
}

func (p *peer) flush() {
	p.t.Helper()
	if err := p.stream.flush(); err != nil {
		p.t.Fatal(err)
	}
	p.bounded()
	p.keptAreHeld()
}

func (p *peer) receive(r *discovery.DeltaDiscoveryResponse) {
	p.t.Helper()
	if n := len(xdstest.Names(r)); n > maxBatchSize {
		p.t.Fatalf("%d names in one response", n)
	}
	if p.see != nil {
		p.see(r)
	}
	pt := p.types[r.GetTypeUrl()]
	for _, resource := range r.GetResources() {
		switch r.GetTypeUrl() {
		case render.ClusterType:
			if pt.willHold(resource.GetName()) {
				p.owed[resource.GetName()] = true
			}
		case render.EndpointType:
			delete(p.owed, resource.GetName())
		}
	}
	pt.queue = append(pt.queue, queued{r, map[string]bool{}})
}

// willHold reports whether the peer holds a name and is not about to lose it.
func (pt *peerType) willHold(name string) bool {
	_, held := pt.held[name]
	return held && !slices.ContainsFunc(pt.queue, func(r queued) bool { return slices.Contains(r.GetRemovedResources(), name) })
}

func (p *peer) subscribe(typeURL string, names ...string) {
	p.t.Helper()
	pt := p.types[typeURL]
	if !pt.started && len(names) == 0 && typeURL != render.EndpointType {
		pt.wildcard = true
	}
	pt.started = true
	for _, name := range names {
		if name == "*" {
			pt.wildcard = true
		} else {
			pt.names[name] = true
		}
	}
	p.send(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names})
}

func (p *peer) unsubscribe(typeURL string, names ...string) {
	p.t.Helper()
	pt := p.types[typeURL]
	if !pt.started {
		return
	}
	for _, name := range names {
		if name == "*" {
			pt.wildcard = false
		} else {
			delete(pt.names, name)
		}
	}
	if !pt.wildcard {
		maps.DeleteFunc(pt.held, func(name, _ string) bool { return !pt.names[name] })
		for _, r := range pt.queue {
			for _, resource := range r.GetResources() {
				if name := resource.GetName(); !pt.names[name] {
					r.ignore[name] = true
				}
			}
		}
	}
	p.send(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesUnsubscribe: names})
}

// answer answers the oldest response of a type.
func (p *peer) answer(typeURL string, accept bool) bool {
	p.t.Helper()
	pt := p.types[typeURL]
	if len(pt.queue) == 0 {
		return false
	}
	r := pt.queue[0]
	pt.queue = pt.queue[1:]
	request := &discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: r.GetNonce()}
	if accept {
		for _, resource := range r.GetResources() {
			if (pt.wildcard || pt.names[resource.GetName()]) && !r.ignore[resource.GetName()] {
				pt.held[resource.GetName()] = resource.GetVersion()
			}
		}
		for _, name := range r.GetRemovedResources() {
			delete(pt.held, name)
		}
	} else {
		request.ErrorDetail = status.New(codes.InvalidArgument, "refused").Proto()
	}
	p.send(request)
	return true
}

// nonsense sends what no Envoy sends.
func (p *peer) nonsense(n byte) {
	p.t.Helper()
	typeURL := sendOrder[int(n)%len(sendOrder)]
	if !p.types[typeURL].started {
		return
	}
	r := &discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: "x" + strconv.Itoa(int(n))}
	switch n % 4 {
	case 0:
		r.TypeUrl, r.ResourceNamesSubscribe = "type.googleapis.com/of.nobody", []string{name(1), "*"}
	case 1:
		r.ErrorDetail = status.New(codes.InvalidArgument, "what was never sent").Proto()
	case 2: // only the first request may say what is held
		r.InitialResourceVersions = map[string]string{name(1): "of another time", "": ""}
	}
	p.send(r)
}

// churn asks for names that no other request has asked for and gives them back.
func (p *peer) churn(n byte) {
	p.t.Helper()
	typeURL := sendOrder[int(n)%len(sendOrder)]
	if !p.types[typeURL].started {
		return
	}
	var names []string
	for range n % 32 {
		p.churned++
		names = append(names, fmt.Sprintf("churn-%d", p.churned))
	}
	p.subscribe(typeURL, names...)
	p.unsubscribe(typeURL, names...)
}

// bounded checks that what the stream remembers follows from what the peer
// asks for and holds now, and not from what it ever asked for.
func (p *peer) bounded() {
	p.t.Helper()
	const catalog = 40 // names that the model's catalogs can have
	for typeURL, s := range p.stream.subs {
		pt := p.types[typeURL]
		most := len(pt.names) + len(pt.held) + catalog
		for _, f := range s.inflight {
			most += len(f.names)
		}
		for what, n := range map[string]int{
			"asked for": len(s.names), "pending": len(s.pending), "sent": len(s.sent), "refused": len(s.rejected),
		} {
			if n > most {
				p.t.Fatalf("%s: %d names are %s for a peer with %d names that holds %d", short(typeURL), n, what, len(pt.names), len(pt.held))
			}
		}
		if n := len(s.oneByOne); n > maxInflight*maxBatchSize+most {
			p.t.Fatalf("%s: %d names to be sent one by one", short(typeURL), n)
		}
		if len(s.inflight) > maxInflight {
			p.t.Fatalf("%s: %d responses without an answer", short(typeURL), len(s.inflight))
		}
	}
}

// drain takes everything that comes.
func (p *peer) drain() {
	p.t.Helper()
	for range 10_000 {
		more := false
		for _, typeURL := range sendOrder {
			more = p.answer(typeURL, true) || more
		}
		if !more {
			return
		}
	}
	p.t.Fatal("the server does not stop sending")
}

// converged checks the law of the engine: a peer that takes everything in the
// end holds what it subscribes to, at the versions of the current catalog, and
// nothing else.
func (p *peer) converged() {
	p.t.Helper()
	p.c.publish() // nothing is kept any more
	p.stream.takeDirty()
	p.flush()
	p.drain()
	for _, sub := range p.stream.subs {
		sub.retry()
	}
	p.flush()
	p.drain()
	cat := p.c.server.current()
	for _, typeURL := range sendOrder {
		pt, want := p.types[typeURL], map[string]string{}
		names := slices.Collect(maps.Keys(pt.names))
		if pt.wildcard {
			names = append(names, cat.Wildcard(typeURL)...)
		}
		for _, name := range names {
			if r, found := cat.Resource(typeURL, name); found {
				want[name] = r.Version
			}
		}
		if !maps.Equal(pt.held, want) {
			p.t.Fatalf("%s: the peer holds %v, want %v", short(typeURL), pt.held, want)
		}
	}
	for name := range p.owed {
		if p.types[render.EndpointType].names[name] {
			p.t.Fatalf("cluster %s changed and its endpoints did not follow", name)
		}
	}
}

// act takes two bytes of a history.
func (p *peer) act(kind, arg byte) {
	p.t.Helper()
	typeURL := sendOrder[int(arg)%len(sendOrder)]
	names := []string{name(arg % 5), name(arg / 5 % 9)}
	switch kind % 14 {
	case 0:
		p.subscribe(typeURL)
	case 1, 2:
		p.subscribe(typeURL, names...)
	case 3:
		p.unsubscribe(typeURL, names[0])
	case 4:
		p.subscribe(typeURL, "*")
	case 5:
		p.unsubscribe(typeURL, "*")
	case 6, 7:
		p.answer(typeURL, true)
	case 8:
		p.answer(typeURL, false)
	case 9:
		p.change(arg)
	case 10: // the stream sees what changed
		p.stream.takeDirty()
		p.flush()
	case 11:
		p.nonsense(arg)
		p.churn(arg)
	case 12:
		p.stream.subs[typeURL].retry()
		p.flush()
	case 13:
		p.connect()
	}
}

func (p *peer) change(arg byte) {
	switch n := arg % 6; arg / 6 % 4 {
	case 0:
		p.c.near(arg, n)
	case 1:
		p.c.far(arg, n)
	case 2:
		p.c.remove(n)
	case 3: // in and out of the wildcard with the same endpoints
		p.c.near(9, n)
	}
	cat, changed := p.c.next(false)
	if arg/24%3 == 0 {
		cat = cat.Keeping()
	}
	p.c.server.Update(cat, changed)
}

// FuzzStream plays histories of requests, answers and changes on one stream.
func FuzzStream(f *testing.F) {
	f.Add([]byte{0, 0, 6, 0, 1, 1, 6, 1, 9, 1, 10, 0, 6, 1})                    // subscribe, take, change
	f.Add([]byte{0, 0, 8, 0, 6, 0, 8, 0, 6, 0, 12, 0})                          // NACKs
	f.Add([]byte{1, 0, 11, 31, 11, 63, 11, 95, 11, 127, 11, 159})               // churn
	f.Add([]byte{0, 0, 6, 0, 1, 7, 6, 1, 9, 7, 13, 0, 6, 0, 6, 1})              // reconnect
	f.Add([]byte{4, 0, 6, 0, 5, 0, 4, 0, 6, 0, 1, 3, 6, 0, 3, 3, 9, 12, 10, 0}) // in and out of the wildcard
	f.Fuzz(func(t *testing.T, history []byte) {
		play(t, history[:min(len(history), 400)])
	})
}

// The law over random histories, in every run of the tests.
func TestAPeerConverges(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		history := make([]byte, 2*random.IntN(150))
		for i := range history {
			history[i] = byte(random.Uint32())
		}
		if !t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { play(t, history) }) {
			return
		}
	}
}

func play(t *testing.T, history []byte) {
	t.Helper()
	c := newCluster(t)
	c.near(9, 1, 2)
	c.far(9, 3)
	c.publish()
	p := newPeer(t, c)
	for ; len(history) > 1; history = history[2:] {
		p.act(history[0], history[1])
	}
	p.converged()
}
