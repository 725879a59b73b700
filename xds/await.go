package xds

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/xds/render"
)

// awaited is somebody who waits until a stream's Envoy has answered what it was told.
type awaited struct {
	clusters map[string]bool // that it has not answered
	over     chan struct{}
}

// Await waits until an Envoy is connected, and each that is has answered what it was told of some
// clusters and of their endpoints; it returns after within at the latest, and reports whether that
// is so. What of TCP an Envoy does not hold yet is no matter: its connections wait there for the
// endpoints. Nothing of it stays: who has awaited in vain keeps nobody else from it.
func (s *Server) Await(clusters []string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	list, came := s.await(clusters)
	for len(list) == 0 {
		select {
		case <-came:
			list, came = s.await(clusters)
		case <-ctx.Done():
			return false
		}
	}
	all := true
	for st, a := range list {
		select {
		case <-a.over:
		case <-st.grpc.Context().Done(): // nobody knows what it holds
			all = false
		case <-ctx.Done():
			all = false
		}
		st.forget(a)
	}
	return all
}

// await is what ends for each stream when its Envoy has answered. came ends with the next stream.
func (s *Server) await(clusters []string) (list map[*stream]*awaited, came <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = make(map[*stream]*awaited, len(s.streams))
	for st := range s.streams {
		list[st] = st.await(clusters)
	}
	return list, s.came
}

func (st *stream) await(clusters []string) *awaited {
	a := &awaited{make(map[string]bool, len(clusters)), make(chan struct{})}
	for _, name := range clusters {
		a.clusters[name] = true
	}
	st.mu.Lock()
	st.awaited[a] = true
	st.mu.Unlock()
	st.wakeUp() // it may have answered already
	return a
}

// forget has nobody wait for this Envoy any more, whether it has answered or not.
func (st *stream) forget(a *awaited) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.awaited, a)
}

// tellAwaited ends what waits for this Envoy, where it has answered. The stream's own goroutine
// calls it.
func (st *stream) tellAwaited() {
	clusters, endpoints, listeners := st.subs[render.ClusterType], st.subs[render.EndpointType], st.subs[render.ListenerType]
	if !clusters.started || clusters.resumed && !endpoints.started {
		return // it has not said what it holds
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.dirtyAll {
		return
	}
	for a := range st.awaited {
		maps.DeleteFunc(a.clusters, func(name string, _ bool) bool {
			udp := render.OfUDP(name) // which nobody asks for: whether it was held is no matter
			owed := clusters.owes(name, udp) || endpoints.owes(name, udp) || udp && listeners.owes(render.ListenerOf(name), true)
			return !owed && !st.isDirty(name)
		})
		if len(a.clusters) == 0 {
			close(a.over)
			delete(st.awaited, a)
		}
	}
}

// isDirty reports whether a cluster is to be looked at; st.mu is held.
func (st *stream) isDirty(cluster string) bool {
	_, cds := st.dirty[render.ClusterType][cluster]
	_, eds := st.dirty[render.EndpointType][cluster]
	_, lds := st.dirty[render.ListenerType][render.ListenerOf(cluster)]
	return cds || eds || lds
}

// owes reports whether a name is to be sent, or not answered: anew is whether also one that Envoy
// did not hold.
func (s *subscription) owes(name string, anew bool) bool {
	if _, waits := s.pending[name]; waits && (anew || s.sent[name] != "") {
		return true
	}
	for _, f := range s.inflight {
		if c := f.changes[name]; c != nil && (anew || c.before != "") {
			return true
		}
	}
	return slices.Contains(s.oneByOne, name)
}
