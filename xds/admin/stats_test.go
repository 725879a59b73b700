package admin

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// counting is what Envoy 1.40 says that is full, in the form in which it says it.
const counting = `# TYPE envoy_cluster_96_0_10_80_upstream_cx_total counter
envoy_cluster_96_0_10_80_upstream_cx_total{envoy_cluster_name="10"} 7
# TYPE envoy_cluster_upstream_cx_connect_fail counter
envoy_cluster_upstream_cx_connect_fail{envoy_cluster_name="[fd00_96__2]_80"} 3
# TYPE envoy_cluster_upstream_cx_total counter
envoy_cluster_upstream_cx_total{envoy_cluster_name="[fd00_96__2]_80"} 4
envoy_cluster_upstream_cx_total{envoy_cluster_name="xds"} 1
# TYPE envoy_overload_envoy_resource_monitors_global_downstream_max_connections_failed_updates counter
envoy_overload_envoy_resource_monitors_global_downstream_max_connections_failed_updates{} 12
# TYPE envoy_cluster_96_0_10_80_outlier_detection_ejections_active gauge
envoy_cluster_96_0_10_80_outlier_detection_ejections_active{envoy_cluster_name="10"} 1
# TYPE envoy_cluster_96_0_10_80_upstream_cx_active gauge
envoy_cluster_96_0_10_80_upstream_cx_active{envoy_cluster_name="10"} 2
# TYPE envoy_cluster_96_0_10_53_UDP_upstream_cx_active gauge
envoy_cluster_96_0_10_53_UDP_upstream_cx_active{envoy_cluster_name="10"} 0
envoy_cluster_upstream_cx_active{envoy_cluster_name="[fd00_96__2]_53/UDP"} 5
envoy_cluster_upstream_cx_active{envoy_cluster_name="xds"} 1
# TYPE envoy_overload_envoy_overload_actions_stop_accepting_connections_active gauge
envoy_overload_envoy_overload_actions_stop_accepting_connections_active{} 1
# TYPE envoy_overload_envoy_resource_monitors_fixed_heap_pressure gauge
envoy_overload_envoy_resource_monitors_fixed_heap_pressure{} 97
# TYPE envoy_server_total_connections gauge
envoy_server_total_connections{} 1638
`

func TestStats(t *testing.T) {
	full := Stats{
		Overload: Overload{Connections: 1638, Refused: 12, Heap: 97, Stopped: true}, Counted: true,
		Uses: []Use{
			{Cluster: "10.96.0.10:53/UDP"},
			{Cluster: "10.96.0.10:80", Counters: Counters{Connections: 7, Active: 2}, Ejected: 1},
			{Cluster: "[fd00:96::2]:53/UDP", Counters: Counters{Active: 5}},
			{Cluster: "[fd00:96::2]:80", Counters: Counters{Connections: 4, Failed: 3}},
		},
	}
	for body, want := range map[string]Stats{
		counting:                               full,
		"":                                     {},
		"envoy_server_total_connections{} 7\n": {Overload: Overload{Connections: 7}}, // of an old bootstrap
		"envoy_cluster_upstream_cx_total{envoy_cluster_name=\"xds\"} 3\n":           {Counted: true},
		"envoy_cluster_9_upstream_cx_total{envoy_cluster_name=\"10\"} 3\n":          {},
		"envoy_cluster_upstream_cx_total{} 3\nenvoy_other{envoy_cluster_name=} 1\n": {},
	} {
		r := serve(t, func(w http.ResponseWriter, q *http.Request) {
			if v := q.URL.Query(); q.URL.Path != "/stats/prometheus" || !v.Has("usedonly") || v.Get("filter") != statsFilter {
				http.NotFound(w, q)
			}
			fmt.Fprint(w, body)
		})
		if got, err := r.Stats(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", body, got, err, want)
		}
	}
}

func TestBadStats(t *testing.T) {
	badAnswers(t, func(ctx context.Context, r *Reader) error { _, err := r.Stats(ctx); return err }, map[string]bad{
		"text":        {says("OK\n"), `"OK" is no statistic`},
		"JSON":        {says("{\"stats\":[]}\n"), "is no statistic"},
		"no number":   {says("envoy_server_total_connections{} many\n"), "is no statistic"},
		"below zero":  {says("envoy_server_total_connections{} -1\n"), "is no statistic"},
		"half of it":  {half(counting), "EOF"},
		"without end": {says(strings.Repeat("envoy_server_total_connections{} 1\n", 2000)), ErrTooLarge.Error()},
	})
}

// Whatever it is told, it ends, and says what was in it.
func FuzzStats(f *testing.F) {
	f.Add(counting)
	f.Add("envoy_cluster_96_0_10_80_upstream_cx_total{envoy_cluster_name=\"10\"} 18446744073709551615\n")
	f.Add("envoy_cluster_upstream_cx_total{envoy_cluster_name=\"\"} 1\n# HELP x\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := decodeStats(strings.NewReader(text))
		if err == nil && s.Overload != (Overload{}) && !strings.Contains(text, "envoy_server_") && !strings.Contains(text, "envoy_overload_") {
			t.Errorf("%+v of %q", s.Overload, text)
		}
		if lines := strings.Count(text, "envoy_cluster_"); len(s.Uses) > lines {
			t.Errorf("%d clusters of %d lines", len(s.Uses), lines)
		}
		for _, u := range s.Uses {
			if u.Ejected < 0 || u.End.IsValid() {
				t.Errorf("%+v", u)
			}
		}
	})
}
