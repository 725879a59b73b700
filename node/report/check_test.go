package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/admin"
)

// torn are the problems of so many files that cannot be read now.
func torn(n int) (list []topology.Problem) {
	for i := range n {
		list = append(list, topology.Problem{Object: fmt.Sprintf("file m/%d.yaml document 1", i), Text: "is no Kubernetes manifest: yaml: line 3: odd; correct it", Loss: topology.LostNewer})
	}
	return list
}

// What a node is degraded by, and what not.
func TestDegraded(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name   string
		change func(*Report)
		want   []string // the beginning of each; none: all is well
	}{
		{"well", func(*Report) {}, nil},
		{"of manifests", func(r *Report) { r.APIServer, r.LastContact = nil, time.Time{} }, nil},
		{"mistakes and ejections are no node's", func(r *Report) {
			r.Problems, r.Notices, r.Notes = []topology.Problem{{Text: "x"}}, 3, []string{"x"}
			r.Ejections.List = []envoy.Ejection{{Out: 1, Of: 2}}
			r.Load.Refused = 7
		}, nil},
		{"manifests that are not taken", func(r *Report) {
			r.APIServer, r.LastContact = nil, time.Time{}
			r.Problems = append([]topology.Problem{{Object: "service default/x (file m/x.yaml document 1)", Text: "occurs twice"}}, torn(7)...)
		}, []string{
			"--manifests: file m/0.yaml document 1: is no Kubernetes manifest: yaml: line 3: odd;", "--manifests: file m/1.yaml", "--manifests: file m/2.yaml",
			"--manifests: file m/3.yaml", "--manifests: file m/4.yaml", "--manifests: 2 more such problems",
		}},
		{"what a lax API server admitted is everybody's", func(r *Report) { r.Problems = torn(1) }, nil},
		{"a moment without the API server", func(r *Report) { r.APIServer.Error = "no route" }, nil},
		{"not all that is asked is answered", func(r *Report) { r.APIServer.Error, r.APIServer.Since = "gone", now.Add(-2*time.Minute) }, []string{"API server: last contact 0s ago, but something has failed for 2m0s; this node goes on with what it knows of that: gone"}},
		{"refused for a moment", func(r *Report) {
			r.APIServer.Error, r.APIServer.Since, r.APIServer.Refused = "forbidden", now.Add(-20*time.Second), now.Add(-5*time.Second)
		}, nil},
		{"refused for a moment, after an hour without an answer", func(r *Report) {
			r.APIServer.Error, r.APIServer.Since, r.APIServer.Refused = "forbidden", now.Add(-time.Hour), now.Add(-5*time.Second)
		}, []string{"API server: refuses what this agent asks for, for 5s; this node goes on with what it knows: forbidden; see that its credentials are valid, and have the rights that deploy/ gives it"}},
		{"refused by it", func(r *Report) {
			r.APIServer.Error, r.APIServer.Since, r.APIServer.Refused = "forbidden", now.Add(-time.Minute), now.Add(-time.Minute)
		}, []string{"API server: refuses what this agent asks for, for 1m0s; this node goes on with what it knows: forbidden; see that its credentials are valid, and have the rights that deploy/ gives it"}},
		{"none yet", func(r *Report) { r.Source = None }, []string{"nothing is served before the first snapshot"}},
		{"an outage", func(r *Report) {
			r.APIServer = &APIServer{LastContact: now.Add(-3 * time.Hour), Error: "no\nroute", Held: []string{"services"}}
		}, []string{"API server: unavailable for 3h0m0s; this node goes on with what it knows: no route", "API server: not believed: services"}},
		{
			"a boot in it", func(r *Report) { r.Source, r.APIServer = LastGood, &APIServer{Error: "no route"} },
			[]string{"it serves from the last good state", "API server: unavailable since the agent started: no route"},
		},
		{"no Envoy", func(r *Report) { r.Envoys = nil }, []string{"no Envoy is connected"}},
		{"rules", func(r *Report) { r.Error = "write:\nno memory" }, []string{"the rules are not as they should be: write: no memory"}},
		{"findings", func(r *Report) { r.Findings = []capture.Finding{{Text: "a chain that drops"}} }, []string{"a chain that drops"}},
		{"refused", func(r *Report) {
			r.Nacks, r.MoreNacks = []xds.Nack{{Type: "cluster", Name: "10.96.0.10:80", Service: "default/web", Reason: "port taken"}}, 2
		}, []string{"Envoy refuses cluster 10.96.0.10:80 (service default/web): port taken", "Envoy refuses 2 resources more"}},
		{"a silent Envoy", func(r *Report) { r.Ejections = &envoy.Ejections{At: now.Add(-2 * quietFor), Error: "timeout"} }, []string{"Envoy's admin socket gives no answer: timeout"}},
		{"a full Envoy", func(r *Report) { r.Load.Newly = 1 }, []string{"Envoy takes no more connections: it has as many"}},
		{
			"an absent Envoy", func(r *Report) { r.Datapath, r.Paths, r.EnvoyAbsent, r.Envoys = "auto", &Paths{Envoy: 1}, true, nil },
			[]string{"Envoy takes no connections: the kernel serves the first tier of what it served"},
		},
		{
			"one that is back", func(r *Report) {
				r.Datapath, r.Paths, r.EnvoyAbsent, r.EnvoyBack = "auto", &Paths{Envoy: 1}, true, now.Add(40*time.Second)
			},
			[]string{"Envoy takes no connections:", "Envoy serves again, and gets new connections in 40s if it goes on"},
		},
		{
			"one that nobody can ask", func(r *Report) { r.Datapath, r.Paths, r.EnvoyUnknown = "auto", &Paths{Envoy: 1}, "no descriptor" },
			[]string{"it cannot be asked whether Envoy serves: no descriptor"},
		},
		{
			"one that is alone with what it has", func(r *Report) { r.Datapath, r.Paths, r.Envoys = "auto", &Paths{Envoy: 1, Kernel: 1}, nil },
			[]string{"no Envoy is connected"},
		},
		{"one that has nothing to do", func(r *Report) {
			r.Datapath, r.Paths, r.Policies, r.EnvoyAbsent, r.Envoys = "auto", &Paths{Kernel: 2}, true, true, nil
		}, nil},
		{"the kernel alone", func(r *Report) { r.Datapath, r.Paths, r.Envoys = "kernel", &Paths{Kernel: 2}, nil }, nil},
		{"too many clusters", func(r *Report) { r.Envoys[0].Over = 5 }, []string{"Envoy asked for 5 clusters more"}},
	} {
		r := &Report{
			Source: Live, APIServer: &APIServer{LastContact: now}, Envoys: []xds.Stream{{Version: "1.40.0"}},
			Ejections: &envoy.Ejections{At: now}, Load: &envoy.Load{Overload: admin.Overload{Connections: 3}},
		}
		tc.change(r)
		got := r.Degraded(now)
		if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	r := Report{Source: Live, Services: 3, Envoys: []xds.Stream{{Version: "1.40.0"}}}
	if got := r.Summary(); got != "live, 3 services, Envoy 1.40.0" {
		t.Errorf("well is %q", got)
	}
	r.Ejections = &envoy.Ejections{NoneLive: []string{"default/web"}}
	if got, bad := r.Summary(), r.Degraded(now); got != "live, 3 services, Envoy 1.40.0; 1 Service has a port without a live endpoint: default/web" || len(bad) > 0 {
		t.Errorf("with a dead Service the node is %q, degraded by %q", got, bad)
	}
}
