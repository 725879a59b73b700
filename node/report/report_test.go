package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/admin"
)

func problem(i string) topology.Problem {
	return topology.Problem{Object: "service default/" + i, Text: "is wrong"}
}

// The words of the wire are read by others.
func TestReportAsJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := Report{
		Version: "v1", Node: "a-1", Unit: map[string]string{"unit": "a"}, Source: Live, APIServer: &APIServer{LastContact: at, Error: "away"},
		Pods: "routed", Services: 3, Preloaded: 2, Updated: at, Error: "broken", Problems: []topology.Problem{problem("x")}, More: 7,
	}
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"version":"v1","node":"a-1","unit":{"unit":"a"},"source":"live","apiServer":{"lastContact":"2026-01-02T03:04:05Z","error":"away"},` +
		`"pods":"routed","services":3,"preloaded":2,"updated":"2026-01-02T03:04:05Z","error":"broken","envoys":null,` +
		`"problems":[{"object":"service default/x","text":"is wrong"}],"moreProblems":7,"notices":0}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReportAsText(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	r := Report{
		Version: "v1", Node: "a-1", Unit: map[string]string{"unit": "a"}, Source: Live, APIServer: &APIServer{LastContact: ago(3 * time.Second)},
		Pods: "bridged (cni0)", Services: 3, Preloaded: 2, Updated: ago(time.Minute), Error: "broken", LastContact: ago(3 * time.Second), Notices: 4,
		Envoys:   []xds.Stream{{Version: "1.40.0", Since: ago(time.Hour), Clusters: 4, Kept: 3, Part: 320, Cut: 2}},
		Nacks:    []xds.Nack{{Type: "cluster", Name: "10.96.0.10:80", Service: "default/web", Reason: "no"}},
		Findings: []capture.Finding{{Text: "a chain that drops"}}, Problems: []topology.Problem{problem("x")},
	}
	var got bytes.Buffer
	if err := r.WriteText(&got, now); err != nil {
		t.Fatal(err)
	}
	const want = `WARNING     the rules are not as they should be: broken
WARNING     Envoy refuses cluster 10.96.0.10:80 (service default/web): no (Envoy goes on with what it had of it)
WARNING     a chain that drops
version     v1
node        a-1
unit        unit=a
source      live, changed 1m0s ago
api server  last contact 3s ago
pods        bridged (cni0)
services    3, 2 clusters preloaded
envoy       1.40.0, connected for 1h0m0s, 4 clusters
envoy       keeps 3 clusters that nothing needs any more, until the kernel has taken a whole view: it may hand Envoy connections to them
envoy       has a part of 2 clusters that it asked for, 320 endpoints of each, the nearest: together they have more than it may hold
refused     cluster 10.96.0.10:80 (service default/web): no
note        4 times Services ask for what no node serves: gridmesh view has each as a notice
problem     service default/x: is wrong
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	got.Reset()
	ejectionLines(&printer{w: &got}, &envoy.Ejections{At: now, List: []envoy.Ejection{{Service: "default/web", Cluster: "10.96.0.10:80", Out: 30, Of: 40, Endpoints: []admin.Endpoint{{}}}}, More: 20}, now)
	if text := got.String(); !strings.Contains(text, "30 of 40 endpoints of default/web (10.96.0.10:80)") || !strings.Contains(text, "and 29 more\n") || !strings.Contains(text, "endpoints of 20 more clusters") {
		t.Errorf("of what is ejected: %s", text)
	}
	got.Reset()
	ejectionLines(&printer{w: &got}, &envoy.Ejections{At: now, NoneLive: []string{"default/a", "default/b"}, MoreNoneLive: 3}, now)
	if text := got.String(); text != "ejected     5 Services have a port without a live endpoint: default/a, default/b: who dials it fails until one answers, and gridmesh view shows which\n" {
		t.Errorf("of dead Services: %s", text)
	}
	for _, tc := range []struct {
		api  APIServer
		want string
	}{
		{APIServer{}, "no answer yet"},
		{APIServer{Error: "no route"}, "unavailable since the agent started: no route"},
		{APIServer{LastContact: ago(time.Minute)}, "last contact 1m0s ago"},
		{APIServer{LastContact: ago(5 * time.Minute)}, "unavailable for 5m0s; this node goes on with what it knows: there is no contact"},
		{APIServer{LastContact: ago(time.Minute), Error: "no route"}, "unavailable for 1m0s; this node goes on with what it knows: no route"},
		{APIServer{LastContact: ago(2 * time.Minute), Error: "no route", Since: ago(time.Minute)}, "unavailable for 2m0s; this node goes on with what it knows: no route"},
		{APIServer{LastContact: ago(time.Second), Error: "gone", Since: ago(time.Minute)}, "last contact 1s ago, but something has failed for 1m0s; this node goes on with what it knows of that: gone"},
		{APIServer{Error: "forbidden", Since: ago(time.Hour), Refused: ago(time.Minute)}, "refuses what this agent asks for, for 1m0s; this node goes on with what it knows: forbidden; see that its credentials are valid, and have the rights that deploy/ gives it"},
	} {
		if got := tc.api.text(now); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	got.Reset()
	_ = (&Report{Source: None}).WriteText(&got, now)
	if !strings.Contains(got.String(), "envoy       not connected") || strings.Contains(got.String(), "unit ") {
		t.Errorf("without an Envoy and a snapshot: %s", got.String())
	}
	got.Reset()
	r.Unit = map[string]string{}
	_ = r.WriteText(&got, now)
	if !strings.Contains(got.String(), "\nunit        none: as far as is known no Service has a label of nodes in its topologyKeys\n") {
		t.Errorf("of no unit: %s", got.String())
	}
	got.Reset()
	r.UnitWithout = []string{"rack", "unit"}
	_ = r.WriteText(&got, now)
	if !strings.Contains(got.String(), "\nunit        none: the node has no label rack, unit\n") {
		t.Errorf("without a label: %s", got.String())
	}
}

// What is wrong with the node itself comes first, and what tenants did wrong takes a few
// lines: every node has it.
func TestTheNodesOwnComesFirst(t *testing.T) {
	r := Report{Source: Live, More: 30, Findings: []capture.Finding{{Text: "a chain that drops"}}}
	for i := range 8 {
		r.Problems = append(r.Problems, problem(fmt.Sprint(i)))
	}
	text := func() string {
		var got bytes.Buffer
		if err := r.WriteText(&got, time.Now()); err != nil {
			t.Fatal(err)
		}
		return got.String()
	}
	const first = "WARNING     no Envoy is connected (captured connections are refused unless one still runs with what it holds)\nWARNING     a chain that drops\nversion "
	if got := text(); !strings.HasPrefix(got, first) || strings.Count(got, "a chain that drops") != 1 {
		t.Errorf("it begins otherwise:\n%s", got)
	}
	if got := text(); strings.Count(got, "\nproblem ") != 6 || !strings.HasSuffix(got, "default/4: is wrong\nproblem     38 in all: gridmesh view lists them\n") {
		t.Errorf("mistakes in objects:\n%s", got)
	}
	for i := range 20 {
		r.Envoys, r.Nacks = []xds.Stream{{}}, append(r.Nacks, xds.Nack{Name: fmt.Sprint(i)})
	}
	if got := text(); strings.Count(got, "WARNING ") != 7 || !strings.Contains(got, "WARNING     Envoy refuses 15 resources more\n") || strings.Count(got, "\nrefused ") != 20 {
		t.Errorf("many refusals:\n%s", got)
	}
}

// What a tenant wrote moves no terminal's cursor, and begins no line.
func TestTheTextIsPrintable(t *testing.T) {
	const hostile = "\x1b[2J\x1b[1;1Hall is well\nversion 9\x1b]0;owned\a\x9b2J"
	r := Report{Source: Live, Problems: []topology.Problem{{Object: "service evil/esc", Text: hostile}}, Error: hostile, Nacks: []xds.Nack{{Name: hostile, Reason: hostile}}}
	var got bytes.Buffer
	if err := r.WriteText(&got, time.Now()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Join(r.Degraded(time.Now()), "\n")
	if all := got.String() + lines; strings.ContainsAny(all, "\x1b\a") || strings.Contains(all, "\x9b") || strings.Contains(all, "\nversion 9") || !strings.Contains(all, `\x1b[2J`) {
		t.Errorf("got %q", all)
	}
}

// Of two paths it says which serves, why, and until when.
func TestTheTextOfTwoPaths(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name   string
		change func(*Report)
		want   []string
	}{
		{"both", func(*Report) {}, []string{"datapath    auto: 2 frontends by Envoy, 3 by the kernel;", "WARNING     no Envoy is connected (captured connections are refused"}},
		{"some refused", func(r *Report) { r.Paths.Refused, r.Paths.RefusedEnvoy = 3, 1 }, []string{"datapath    auto: 1 frontends by Envoy, 1 by the kernel, 3 refused; gridmesh view"}},
		{"refused, and absent", func(r *Report) { r.Paths.Refused, r.Paths.RefusedEnvoy, r.EnvoyAbsent = 3, 1, true }, []string{"datapath    auto: 0 frontends by Envoy, 2 by the kernel, 3 refused; gridmesh view"}},
		{"absent", func(r *Report) { r.EnvoyAbsent = true }, []string{"datapath    auto: 0 frontends by Envoy, 5 by the kernel;", "envoy       takes no connections: the kernel serves", "envoy       not connected\n"}},
		{"back", func(r *Report) { r.EnvoyAbsent, r.EnvoyBack = true, now.Add(time.Minute) }, []string{"envoy       serves again, and gets new connections in 1m0s if it goes on"}},
		{"beside kube-proxy", func(r *Report) { r.BesideKubeProxy = true }, []string{"datapath    auto: 0 frontends by Envoy, 5 by the kernel;", "kube-proxy  its rules are on this node"}},
		{"kube-proxy's rules gone", func(r *Report) { r.BesideKubeProxy, r.KubeProxyUntil = true, now.Add(30*time.Second) }, []string{"datapath    auto: 0 frontends by Envoy, 5 by the kernel;", "kube-proxy  its rules are gone"}},
		{"not to be asked", func(r *Report) { r.EnvoyUnknown = "no descriptor" }, []string{"envoy       cannot be asked whether it serves: no descriptor"}},
		{"policies", func(r *Report) { r.Policies = true }, []string{"policies    the cluster has some: the kernel serves all"}},
		{"policies that were seen", func(r *Report) { r.Policies, r.PoliciesSeen = true, now.Add(-95*time.Second) }, []string{"policies    the cluster has some as of 1m35s ago, and is asked again every two minutes: the kernel serves all"}},
		{"none a moment ago", func(r *Report) { r.PoliciesNone = now.Add(-150 * time.Second) }, []string{"3 by the kernel; gridmesh view --datapath auto names them\nenvoy "}},
		{"not watched", func(r *Report) { r.PoliciesNone = now.Add(-11 * time.Minute) }, []string{"policies    not watched: the cluster had none 11m0s ago, and has not said so since; of one that has come since"}},
		{"not asked", func(r *Report) { r.PoliciesUnasked = true }, []string{"policies    the cluster had none when an agent before this one asked, and this one has no answer yet; of one"}},
		{"policies that nobody knows of", func(r *Report) { r.Policies, r.PoliciesUnknown = true, true }, []string{"policies    it is not known yet"}},
		{"policies that went", func(r *Report) { r.Policies, r.PoliciesUntil = true, now.Add(10*time.Minute) }, []string{"policies    the cluster has none any more: the kernel serves all for 10m0s yet"}},
	} {
		r := Report{Source: Live, Datapath: "auto", Paths: &Paths{Envoy: 2, Kernel: 3}}
		tc.change(&r)
		var got bytes.Buffer
		if err := r.WriteText(&got, now); err != nil {
			t.Error(err)
		}
		for _, want := range tc.want {
			if !strings.Contains(got.String(), want) {
				t.Errorf("%s: no %q in\n%s", tc.name, want, &got)
			}
		}
	}
}

// A source that is live and silent is said to be silent, also where there is no
// API server; one that has nothing new is not.
func TestTheSourceIsSilent(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		report Report
		want   string
	}{
		{Report{Source: Live, Updated: now.Add(-time.Hour), LastContact: now.Add(-time.Second)}, "live, changed 1h0m0s ago"},
		{Report{Source: Live, Updated: now.Add(-time.Hour), LastContact: now.Add(-19 * time.Second)}, "live, changed 1h0m0s ago"},
		{Report{Source: Live, Updated: now.Add(-time.Hour), LastContact: now.Add(-20 * time.Second)}, "live, changed 1h0m0s ago; no contact with the source for 20s"},
		{Report{Source: Live, Updated: now.Add(-time.Hour), LastContact: now.Add(-3 * time.Minute)}, "live, changed 1h0m0s ago; no contact with the source for 3m0s"},
		{Report{Source: LastGood, Updated: now.Add(-time.Second)}, "last good state, changed 1s ago; no contact with the source since the agent started"},
		{Report{Source: Live, LastContact: now.Add(-time.Minute)}, "live, not in force yet; no contact with the source for 1m0s"},
	} {
		if got := tc.report.sourceText(now); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// Every field is on the page: others read it.
func TestTheFieldsOfTheReportAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{Report{}, APIServer{}, Held{}, Paths{}, envoy.Ejections{}, envoy.Ejection{}, admin.Overload{}} {
		for f := range fields(reflect.TypeOf(of)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/agent.md does not name `%s` of %T", name, of)
			}
		}
	}
}

func fields(of reflect.Type) iter.Seq[reflect.StructField] {
	return func(yield func(reflect.StructField) bool) {
		for i := range of.NumField() {
			if !yield(of.Field(i)) {
				return
			}
		}
	}
}

// A status tells by itself, and to who has it from an agent of another version, that the API
// server refuses: one that says no time is refused all the same.
func TestARefusalOfAnotherVersion(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]string{
		`{"lastContact": "2026-01-02T03:04:04Z", "error": "forbidden", "refused": true}`:                                         "refuses what this agent asks for; this node goes on with what it knows: forbidden; see that",
		`{"lastContact": "2026-01-02T03:04:04Z", "error": "forbidden", "refused": true, "refusedSince": "2026-01-02T03:03:05Z"}`: "refuses what this agent asks for, for 1m0s; this node goes on with what it knows: forbidden; see that",
	} {
		var s APIServer
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if got := s.text(now); !strings.HasPrefix(got, want) || !s.fails(now) {
			t.Errorf("%s: fails %v, %q, want %q", text, s.fails(now), got, want)
		}
		again, err := json.Marshal(s)
		if err != nil || strings.Contains(string(again), "refusedSince") != strings.Contains(text, "refusedSince") || !strings.Contains(string(again), `"refused":true`) {
			t.Errorf("%s: %s, %v", text, again, err)
		}
	}
}
