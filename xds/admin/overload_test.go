package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// loaded is what Envoy 1.40 answers that is full.
const loaded = `{"stats":[
 {"name":"overload.envoy.overload_actions.shrink_heap.active","value":1},
 {"name":"overload.envoy.overload_actions.stop_accepting_connections.active","value":1},
 {"name":"overload.envoy.resource_monitors.fixed_heap.pressure","value":97},
 {"name":"overload.envoy.resource_monitors.global_downstream_max_connections.failed_updates","value":12},
 {"name":"server.total_connections","value":1638}]}`

func TestOverload(t *testing.T) {
	for body, want := range map[string]Overload{
		loaded:         {Connections: 1638, Refused: 12, Heap: 97, Stopped: true},
		`{"stats":[]}`: {},
		`{"stats":[{"name":"server.total_connections","value":7},{"histograms":{}}]}`: {Connections: 7},
		`{"stats":[{"name":"server.total_connections","value":-1}]}`:                  {},
	} {
		r := serve(t, func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path != "/stats" || q.URL.Query().Get("format") != "json" || q.URL.Query().Get("filter") == "" {
				http.NotFound(w, q)
			}
			fmt.Fprint(w, body)
		})
		if got, err := r.Overload(t.Context()); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", body, got, err, want)
		}
	}
	for body, want := range map[string]string{"": "EOF", "OK": "invalid character", `{"stats":` + strings.Repeat(" ", maxStats): "EOF"} {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		if _, err := r.Overload(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", body, err, want)
		}
	}
}

// Whatever it is told, it ends, and says what was in it.
func FuzzOverload(f *testing.F) {
	f.Add([]byte(loaded))
	f.Add([]byte(`{"stats":[{"name":"server.total_connections","value":1e300}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := decodeOverload(bytes.NewReader(body))
		if err == nil && o != (Overload{}) && !bytes.Contains(bytes.ToLower(body), []byte("value")) && !bytes.Contains(body, []byte(`\u`)) {
			t.Errorf("%+v of %q", o, body)
		}
	})
}
