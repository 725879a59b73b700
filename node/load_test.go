package node

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gridmesh/gridmesh/xds/admin"
)

// An Envoy that takes no more connections says so in the status, the metrics
// and the log, and what it refused long ago is no news.
func TestAnOverloadedEnvoyIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asked(t, webOnly())
		for _, step := range []struct {
			load  admin.Overload
			newly uint64
			want  string // of the status
			logs  int    // so far
		}{
			{admin.Overload{Connections: 7}, 0, "7 connections of clients are open\n", 0},
			{admin.Overload{Connections: 1638, Refused: 12, Heap: 60}, 12, "it has as many as --envoy-heap-limit leaves room for; 12 were refused since its start, 12 of them just now", 1},
			{admin.Overload{Connections: 9, Refused: 12, Heap: 40}, 0, "12 connections were refused since Envoy's start, none just now", 1},
			{admin.Overload{Connections: 3, Refused: 2, Heap: 97, Stopped: true}, 2, "its memory is full (97 % of --envoy-heap-limit)", 2}, // a new one
		} {
			r.envoy.Load(step.load)
			r.look()
			got, text := r.askStatusOnce(t)
			if got.Load == nil || got.Load.Overload != step.load || got.Load.Newly != step.newly || !strings.Contains(text, step.want) {
				t.Errorf("%+v: %+v\n%s", step.load, got.Load, text)
			}
			if n := r.log.count("Envoy takes no more connections"); n != step.logs {
				t.Errorf("%+v: said %d times, want %d", step.load, n, step.logs)
			}
			for name, want := range map[string]float64{
				"gridmesh_envoy_open_connections": float64(step.load.Connections), "gridmesh_envoy_refused_connections_total": float64(step.load.Refused),
				"gridmesh_envoy_heap_ratio": float64(step.load.Heap) / 100,
			} {
				if got := r.metric(t, name); got != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
		}
		r.envoy.Fail(errBroken)
		r.look()
		if got := r.agent.status(); got.Load != nil {
			t.Errorf("known from an Envoy that does not answer: %+v", got.Load)
		}
	})
}

// askStatusOnce is the status as it is, in both forms: nothing is asked for it.
func (r *rig) askStatusOnce(t *testing.T) (Report, string) {
	t.Helper()
	report := r.agent.status()
	var text strings.Builder
	must(t, report.WriteText(&text, report.Ejections.At))
	return report, text.String()
}
