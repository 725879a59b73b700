package xds

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/xds/render"
)

// The oldest Envoy whose listener filters and on-demand clusters behave as
// the resources need them.
const oldestMajor, oldestMinor = 1, 40

// maxNames bounds what one stream may ask for, by type: twice the frontends of
// the largest cluster that Kubernetes supports.
const maxNames = 1 << 18

// maxName bounds each name in bytes, to twice the longest that is served, and
// maxNameBytes all of a type; maxNodeID is Kubernetes' own bound.
const (
	maxNodeID    = 253
	maxName      = 128
	maxNameBytes = maxNames * maxName / 2
)

// maxDirty bounds the names that are remembered one by one for a peer that does
// not read; beyond it the stream looks at everything that the peer holds.
const maxDirty = 1 << 12

// retryRefused is how often Envoy is offered again what it refused, and a tick.
const retryRefused = 10 * time.Second

// sendOrder is the order of types: clusters, then the endpoints they wait for, then
// the listeners that lead to them.
var sendOrder = []string{render.ClusterType, render.EndpointType, render.ListenerType}

type stream struct {
	server *Server
	grpc   discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	wake   chan struct{}
	subs   map[string]*subscription // owned by run, as what follows
	nonce  int
	known  bool // the peer has said who it is
	over   bool // that it asks for too much was said
	full   bool // that it keeps too much was said

	mu       sync.Mutex
	dirty    map[string]map[string]struct{}
	dirtyAll bool // look at everything
	info     Stream
	awaited  map[*awaited]bool // who waits for this Envoy
}

func newStream(s *Server, g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) *stream {
	st := &stream{
		server: s, grpc: g, wake: make(chan struct{}, 1), subs: map[string]*subscription{},
		dirty: map[string]map[string]struct{}{}, info: Stream{Since: time.Now()}, awaited: map[*awaited]bool{},
	}
	for _, typeURL := range sendOrder {
		st.subs[typeURL] = newSubscription(typeURL)
	}
	st.subs[render.ClusterType].room = newRoom(s.cfg.MaxOnDemand)
	st.subs[render.EndpointType].parts = newParts(endpointsOnDemand * s.cfg.MaxOnDemand)
	return st
}

// mark marks changed names dirty; the stream looks at them when it can send.
// It never blocks.
func (st *stream) mark(changed render.Changed, all bool) {
	st.mu.Lock()
	n := 0
	for typeURL, names := range changed {
		n += len(st.dirty[typeURL]) + len(names)
	}
	if st.dirtyAll = st.dirtyAll || all || n > maxDirty; st.dirtyAll {
		clear(st.dirty) // everything is looked at
	} else {
		for typeURL, names := range changed {
			if st.dirty[typeURL] == nil {
				st.dirty[typeURL] = map[string]struct{}{}
			}
			for _, name := range names {
				st.dirty[typeURL][name] = struct{}{}
			}
		}
	}
	st.mu.Unlock()
	st.wakeUp()
}

func (st *stream) wakeUp() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

func (st *stream) describe() Stream {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.info
}

func (st *stream) run() error {
	requests := make(chan *discovery.DeltaDiscoveryRequest)
	ended := make(chan error, 1)
	go func() {
		for {
			r, err := st.grpc.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case requests <- r:
			case <-st.grpc.Context().Done():
				ended <- st.grpc.Context().Err()
				return
			}
		}
	}()
	retry := time.NewTicker(retryRefused)
	defer retry.Stop()
	for {
		select {
		case <-retry.C:
			st.tick()
		case r := <-requests:
			if err := st.request(r); err != nil {
				return err
			}
		case <-st.wake:
			st.takeDirty()
		case err := <-ended:
			return err
		}
		if err := st.flush(); err != nil {
			return err
		}
		st.tellAwaited()
	}
}

// tick does what time brings.
func (st *stream) tick() {
	for _, sub := range st.subs {
		sub.retry()
		sub.resized = append(sub.resized, sub.parts.tick()...)
	}
}

func (st *stream) request(r *discovery.DeltaDiscoveryRequest) error {
	if !st.known {
		if err := st.checkNode(r.GetNode()); err != nil {
			return err
		}
		st.known = true
	}
	sub, served := st.subs[r.GetTypeUrl()]
	if !served {
		return nil
	}
	if err := sub.bound(r); err != nil {
		return err
	}
	if nonce := r.GetResponseNonce(); nonce != "" {
		if r.GetErrorDetail() == nil {
			st.server.accepted(st, sub.typeURL, sub.ack(nonce))
		} else {
			st.nacked(sub, nonce, r.GetErrorDetail().GetMessage())
		}
	}
	asked := sub.request(st.server.current(), r.GetResourceNamesSubscribe(), r.GetResourceNamesUnsubscribe(), r.GetInitialResourceVersions())
	if sub.typeURL == render.ClusterType && len(asked) > 0 {
		st.server.cfg.Asked(asked)
	}
	if len(sub.over) > 0 && !st.over {
		st.over = true
		st.server.cfg.Log.Error("Envoy asks for more clusters than one node may hold, or a namespace for more than its part; connections to those end after a few seconds until they are preloaded in their turn, one in 30s, or Envoy is restarted",
			obs.KeyNode, st.describe().Node)
	}
	return nil
}

func (st *stream) nacked(sub *subscription, nonce, reason string) {
	st.server.cfg.Metrics.nacks.WithLabelValues(short(sub.typeURL)).Inc()
	if name := sub.nack(nonce); name != "" {
		st.server.refused(st, sub.typeURL, name, reason)
	}
}

// checkNode notes who is connected, by the first request. An Envoy that is too
// old is told so in its log.
func (st *stream) checkNode(node *core.Node) error {
	if node == nil {
		return status.Error(codes.InvalidArgument, "the first request of a stream has no node: gridmesh serves an Envoy whose bootstrap gridmesh-agent bootstrap printed")
	}
	if n := len(node.GetId()); n > maxNodeID {
		return status.Errorf(codes.InvalidArgument, "a node's name of %d bytes; Kubernetes has none above %d", n, maxNodeID)
	}
	v := node.GetUserAgentBuildVersion().GetVersion()
	text := fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
	st.mu.Lock()
	st.info.Node, st.info.Version, st.info.MaxConnections = node.GetId(), text, connectionsOf(node)
	st.mu.Unlock()
	if v.GetMajorNumber() < oldestMajor || v.GetMajorNumber() == oldestMajor && v.GetMinorNumber() < oldestMinor {
		err := status.Errorf(codes.FailedPrecondition, "Envoy %s is too old for gridmesh, which needs %d.%d or newer: update the Envoy image of this node", text, oldestMajor, oldestMinor)
		st.server.cfg.Log.Error("refused an Envoy that is too old", obs.KeyNode, node.GetId(), obs.KeyVersion, text)
		return err
	}
	st.server.cfg.Log.Info("Envoy connected", obs.KeyNode, node.GetId(), obs.KeyVersion, text)
	return nil
}

// connectionsOf reads how many connections an Envoy takes; nonsense is none.
func connectionsOf(node *core.Node) int {
	n := node.GetMetadata().GetFields()[maxConnectionsKey].GetNumberValue()
	if !(n >= 1 && n <= math.MaxInt32) { // NaN is neither
		return 0
	}
	return int(n)
}

func (st *stream) takeDirty() {
	st.mu.Lock()
	dirty, all := st.dirty, st.dirtyAll
	st.dirty, st.dirtyAll = map[string]map[string]struct{}{}, false
	st.mu.Unlock()
	cat := st.server.current()
	if all {
		for _, sub := range st.subs {
			sub.markAll(cat)
		}
	}
	for typeURL, names := range dirty {
		sub := st.subs[typeURL]
		if !sub.started {
			continue // its first request will ask for everything
		}
		for name := range names {
			if sub.concerns(cat, name) {
				sub.mark(cat, name, false)
			}
		}
	}
}

// flush sends what may be sent now. What has to wait for an answer waits.
func (st *stream) flush() error {
	cat := st.server.current()
	for _, typeURL := range sendOrder {
		sub := st.subs[typeURL]
		for sub.started {
			b, changed := sub.next(cat)
			if b == nil {
				break
			}
			if err := st.send(sub, b); err != nil {
				return err
			}
			endpoints := st.subs[render.EndpointType]
			for _, name := range changed {
				// After a reconnect Envoy asks for clusters before it says
				// which endpoints it holds.
				if endpoints.names[name] || !endpoints.started {
					endpoints.mark(cat, name, true)
				}
			}
		}
	}
	clusters, endpoints := st.subs[render.ClusterType], st.subs[render.EndpointType]
	before := st.describe()
	st.server.cfg.Metrics.over.Add(float64(len(clusters.over) - before.Over))
	st.server.cfg.Metrics.cut.Add(float64(endpoints.parts.cut - before.Cut))
	st.mu.Lock()
	st.info.Clusters, st.info.Endpoints, st.info.Over = len(clusters.sent), len(endpoints.sent), len(clusters.over)
	st.info.Kept, st.info.Part, st.info.Cut = clusters.kept.len(), endpoints.parts.size(), endpoints.parts.cut
	info := st.info
	st.mu.Unlock()
	st.sayWhatIsCut(before, info)
	return nil
}

// sayWhatIsCut says once that there is no room for all of what Envoy asked for, or keeps.
func (st *stream) sayWhatIsCut(before, info Stream) {
	clusters, endpoints := st.subs[render.ClusterType], st.subs[render.EndpointType]
	if info.Part > 0 && before.Part == 0 {
		st.server.cfg.Log.Warn("the clusters that Envoy asked for have more endpoints than it may hold: it has a part of the largest, the nearest; status says how many of each",
			obs.KeyNode, info.Node, obs.KeyEndpoints, endpoints.parts.most)
	}
	if clusters.crowded && !st.full {
		st.full = true
		st.server.cfg.Log.Warn("the kernel may hand Envoy more clusters that nothing needs any more than there is room for: the ones without a Service are removed first; a connection to one that has a Service fetches it again while there is room",
			obs.KeyNode, info.Node)
	}
}

func (st *stream) send(sub *subscription, b *batch) error {
	st.nonce++
	resp := &discovery.DeltaDiscoveryResponse{
		TypeUrl: sub.typeURL, Nonce: strconv.Itoa(st.nonce), RemovedResources: b.removed,
		SystemVersionInfo: strconv.Itoa(st.nonce),
	}
	bytes := 0
	for _, r := range b.resources {
		body, err := anypb.New(r.Message())
		if err != nil {
			return status.Errorf(codes.Internal, "marshal %s %s: %v", short(sub.typeURL), r.Name, err)
		}
		bytes += len(body.GetValue())
		resp.Resources = append(resp.Resources, &discovery.Resource{Name: r.Name, Version: r.Version, Resource: body})
	}
	sub.record(resp.GetNonce(), b)
	m := st.server.cfg.Metrics
	m.resources.WithLabelValues(short(sub.typeURL)).Add(float64(len(b.resources)))
	m.removed.WithLabelValues(short(sub.typeURL)).Add(float64(len(b.removed)))
	m.bytes.WithLabelValues(short(sub.typeURL)).Add(float64(bytes))
	return st.grpc.Send(resp)
}

// short is the word for a type in metrics and logs.
func short(typeURL string) string {
	switch typeURL {
	case render.ClusterType:
		return "cluster"
	case render.EndpointType:
		return "endpoints"
	case render.ListenerType:
		return "listener"
	}
	return typeURL
}
