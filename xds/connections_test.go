package xds

import (
	"math"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// What a bootstrap bounds, the Envoy that has it tells.
func TestEnvoyTellsItsConnections(t *testing.T) {
	s := New(Config{})
	for what, streams := range map[string]map[*stream]struct{}{"without an Envoy": {}, "with one that nothing bounds": {&stream{}: {}}} {
		s.streams = streams
		if share, all := s.ClientShare(); share != 0 || all != 0 {
			t.Errorf("%s: %d of %d", what, share, all)
		}
	}
	s.streams = map[*stream]struct{}{}
	connect := func(node *core.Node) {
		st := &stream{info: Stream{MaxConnections: connectionsOf(node)}}
		s.streams[st] = struct{}{}
	}
	for _, step := range []struct{ heapMiB, share, all int }{{448, 2867, 11468}, {1024, 2867, 37682}, {64, 410, 39320}, {0, 410, 0}} {
		var message bootstrap.Bootstrap
		if err := protojson.Unmarshal(asJSON(t, Bootstrap{Node: "a-1", HeapBytes: uint64(step.heapMiB) << 20}), &message); err != nil {
			t.Fatal(err)
		}
		connect(message.GetNode())
		if share, all := s.ClientShare(); share != step.share || all != step.all {
			t.Errorf("with %d MiB more: a client's share is %d of %d, want %d of %d", step.heapMiB, share, all, step.share, step.all)
		}
	}
	for _, nonsense := range []float64{-1, math.NaN(), math.Inf(1), 1e300, 0.5} {
		node := &core.Node{Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{maxConnectionsKey: structpb.NewNumberValue(nonsense)}}}
		if got := connectionsOf(node); got != 0 {
			t.Errorf("%g connections were taken for %d", nonsense, got)
		}
	}
}
