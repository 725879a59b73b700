package xds

import (
	"context"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/xds/render"
)

// awaited is somebody who waits until a stream's Envoy has what it was told.
type awaited struct {
	clusters map[string]bool
	over     chan struct{}
}

// Await waits until every connected Envoy has taken, or refused, what it was told of some clusters
// and of their endpoints; it returns after within at the latest, and reports whether all have. What
// an Envoy does not hold yet is no matter: its connections wait there for the endpoints.
// An Envoy that was awaited in vain is not awaited again before it has done that.
func (s *Server) Await(clusters []string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	all := true
	for st, over := range s.await(clusters) {
		if over == nil {
			all = false
			continue
		}
		select {
		case <-over:
		case <-st.grpc.Context().Done():
		case <-ctx.Done():
			all = false
		}
	}
	return all
}

// await is what ends for each stream when its Envoy has them; nil where it is behind as it is.
func (s *Server) await(clusters []string) map[*stream]<-chan struct{} {
	names := make(map[string]bool, len(clusters))
	for _, name := range clusters {
		names[name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make(map[*stream]<-chan struct{}, len(s.streams))
	for st := range s.streams {
		list[st] = st.await(names)
	}
	return list
}

func (st *stream) await(clusters map[string]bool) <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.awaited != nil {
		return nil
	}
	st.awaited = &awaited{clusters, make(chan struct{})}
	st.wakeUp() // it may have them already
	return st.awaited.over
}

// tellAwaited ends what waits for this Envoy, where it has what it was told. The stream's own
// goroutine calls it.
func (st *stream) tellAwaited() {
	st.mu.Lock()
	defer st.mu.Unlock()
	a := st.awaited
	if a == nil || st.dirtyAll {
		return
	}
	for _, typeURL := range []string{render.ClusterType, render.EndpointType} {
		if st.subs[typeURL].behind(a.clusters) {
			return
		}
		for name := range st.dirty[typeURL] {
			if a.clusters[name] {
				return
			}
		}
	}
	close(a.over)
	st.awaited = nil
}

// behind reports whether any of some names is to be sent, or was not answered yet.
func (s *subscription) behind(names map[string]bool) bool {
	of := func(name string) bool { return names[name] }
	for name := range names {
		if _, waits := s.pending[name]; waits {
			return true
		}
	}
	return slices.ContainsFunc(s.oneByOne, of) ||
		slices.ContainsFunc(s.inflight, func(f *inflight) bool { return slices.ContainsFunc(f.names, of) })
}
