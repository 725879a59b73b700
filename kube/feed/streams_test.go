package feed

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	stdslices "slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
	"github.com/gridmesh/gridmesh/kube/internal/lists"
	"github.com/gridmesh/gridmesh/topology"
)

const (
	addedNode = `{"type": "ADDED", "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": %q, "resourceVersion": "1"}}}`
	allNodes  = `{"type": "BOOKMARK", "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1000", "annotations": {"k8s.io/initial-events-end": "true"}}}}`
)

// ofNodes reports whether a request lists or watches Nodes, and whether it wants them streamed.
func ofNodes(r *http.Request) (is, streamed bool) {
	return strings.HasSuffix(r.URL.Path, "/nodes"), r.URL.Query().Get("sendInitialEvents") == "true"
}

func countNodes(s *topology.Snapshot) string { return fmt.Sprint(s.Nodes.Len()) }

// Over a poor link all Nodes are streamed anew for minutes, and a hold waits for that: the stream
// is what it waits for, and is not cut for a list.
func TestAHoldWaitsForAStreamThatComesSlowly(t *testing.T) {
	t.Parallel()
	const times, nodes, pause = 20, 50, 200 * time.Millisecond // 200 s of stream, 4 s between two Nodes
	s := cluster(t)
	var slow atomic.Bool
	var streams, listed atomic.Int64
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		is, streamed := ofNodes(r)
		switch {
		case !is || !slow.Load():
			next(w, r)
		case streamed:
			streams.Add(1)
			for i := range nodes {
				name := "a" // which is known
				if i > 0 {
					name = fmt.Sprint("n", i)
				}
				stream(w, fmt.Sprintf(addedNode, name))
				select {
				case <-time.After(pause):
				case <-r.Context().Done():
					return
				}
			}
			stream(w, allNodes)
			<-r.Context().Done()
		case r.URL.Query().Get("watch") != "":
			apitest.Fail(w, http.StatusGone, "Expired")
		default:
			listed.Add(1)
			next(w, r)
		}
	})
	f := New(s.Client(t), slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	begin := time.Now()
	f.now = func() time.Time { return begin.Add(times * time.Since(begin)) }
	f.hurry, f.look, f.retry.Duration = times, lists.FirstLook/times, retry.Duration/times
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Run(ctx) }()
	t.Cleanup(func() { cancel(); s.Close(); <-ended })
	follower{f, t, f.Wake(), nil}.until("1", countNodes)
	slow.Store(true)
	since := f.now()
	s.EndWatches()
	eventually(t, "the hold has heard of Nodes", func() bool { return !stdslices.Contains(f.Unheard(since), "nodes") })
	eventually(t, "all nodes are known", func() bool { // with the next snapshot
		snap, _ := f.Get()
		return countNodes(snap) == fmt.Sprint(nodes)
	})
	if streams.Load() != 1 || listed.Load() != 0 {
		t.Errorf("%d streams and %d lists, want one stream", streams.Load(), listed.Load())
	}
}

// Who cuts each stream before it has told all, whether anything of it came or not, has it listed:
// lists come in pages.
func TestStreamsThatAreCutAreListed(t *testing.T) {
	t.Parallel()
	for name, told := range map[string][]string{"nothing came": nil, "something came": {fmt.Sprintf(addedNode, "a")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t)
			var streams atomic.Int64
			s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
				if is, streamed := ofNodes(r); !is || !streamed {
					next(w, r)
					return
				}
				streams.Add(1)
				stream(w, told...)
				select {
				case <-time.After(1100 * time.Millisecond): // client-go gives up what ends within a second
				case <-r.Context().Done():
				}
			})
			f := follow(t, s)
			f.until("kubernetes(1) a 10.96.0.0/16", contents)
			if n := streams.Load(); n != 2 {
				t.Errorf("listed after %d streams, want 2", n)
			}
			s.Put(t, `{apiVersion: v1, kind: Node, metadata: {name: b}}`)
			f.until("2", countNodes)
		})
	}
}
