package topology

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

func TestEachRuleIsWhole(t *testing.T) {
	seen := map[string]bool{}
	leaveOne := []*rule{ // of each frontend or name one endpoint stays
		duplicatesAnywhere,
		duplicates,
		nearerToo,
		trafficHints,
		bound,
		votedDead,
		nearestTier,
	}
	for _, r := range rules {
		if r.name == "" || r.reason == "" || seen[r.name] {
			t.Errorf("rule %q: it needs a name of its own and a reason", r.name)
		}
		if leavesOne := slices.Contains(leaveOne, r); (r.cure == "") != leavesOne {
			t.Errorf("rule %s: it needs a cure, which gridmesh trace shows where it left out the last endpoint; one that always leaves an endpoint has none, and is in leaveOne of this test", r.name)
		}
		if (r.keep == nil) == (r.arrange == nil) {
			t.Errorf("rule %s: it either keeps or arranges", r.name)
		}
		seen[r.name] = true
	}
}

// A rule that reads a label of nodes, this one's own as well, needs nothing but its
// line in the list: frontends, names and reasons follow it, and so do changes of
// the label. No endpoint is on this node: nothing but the label makes it matter.
func TestARuleIsOneLine(t *testing.T) {
	const label, here = "example.com/arch", "n4"
	sameArch := &rule{
		name: "architecture", reason: "its node is of another architecture", nodeLabels: []string{label},
		keep: func(q *question, c candidate) bool {
			mine, _ := q.label(q.vp.Name, label)
			its, _ := q.label(c.Node, label)
			return mine == its
		},
	}
	list := append([]*rule{sameArch}, rules...)
	see := func(v *Viewer, s *Snapshot) *View { v.rules = list; return v.See(s) }
	b, keys := NewBuilder(), `["site"]`
	headless, web := ObjectKey{"default", "db"}, ObjectKey{"default", "web"}
	b.SetService(&Service{Key: headless, Headless: true, GridKey: "site", TopologyKeys: &keys})
	b.SetService(&Service{Key: web, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: []ServicePort{{Name: "a", Protocol: TCP, Port: 80}}})
	for _, service := range []string{"db", "web"} {
		s := &Slice{Key: ObjectKey{"default", service}, Service: service, Ports: []SlicePort{{Name: "a", Protocol: TCP, Port: 8080}}}
		for i := range 4 {
			s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: fmt.Sprint("n", i), Hostname: fmt.Sprint("db-a-", i), Ready: true})
		}
		b.SetSlice(s)
	}
	archs := map[string]string{}
	set := func(node, arch string) {
		archs[node] = arch
		b.SetNode(&Node{Name: node, Labels: map[string]string{"site": "a", label: arch}})
	}
	for i := range 5 {
		set(fmt.Sprint("n", i), "amd64")
	}
	kept, random := NewViewer(here, Options{}), rand.New(rand.NewPCG(1, 1))
	for step := range 50 {
		set(fmt.Sprint("n", random.IntN(5)), []string{"amd64", "arm64"}[random.IntN(2)]) // one: no other hides that it was not followed
		alike := map[string]bool{}
		for node, arch := range archs {
			if node != here && arch == archs[here] {
				alike[node] = true
			}
		}
		snap := b.Build()
		view := see(kept, snap)
		if fresh := see(NewViewer(here, Options{}), snap); !reflect.DeepEqual(view.Sorted(), fresh.Sorted()) {
			t.Fatalf("step %d: the kept view differs from a new one", step)
		}
		db, _ := view.Service(headless)
		of := map[string]bool{}
		for _, m := range db.Members {
			of[m.Node] = true
		}
		if !maps.Equal(of, alike) {
			t.Fatalf("step %d: the name stands for %v, want %v", step, of, alike)
		}
		for _, p := range db.Pods {
			if !p.Own || alike[p.Node] == (p.Reason == sameArch.reason) { // a rule moves no pod to another unit
				t.Fatalf("step %d: pod %+v, nodes like this one are %v", step, p, alike)
			}
		}
		served := map[string]bool{}
		sv, _ := view.Service(web)
		for _, tier := range sv.Frontends[0].Tiers {
			for _, e := range tier.Endpoints {
				served[e.Node] = true
			}
		}
		if !maps.Equal(served, alike) {
			t.Fatalf("step %d: the frontend leads to %v, want %v", step, served, alike)
		}
	}
}

// What a person is told: the rule and the reason, by what was left out.
func TestReasons(t *testing.T) {
	for name, c := range map[string]struct {
		keys  string
		local bool
		ep    Endpoint
		want  string
	}{
		"malformed":         {`site`, false, Endpoint{Node: "b1", Ready: true}, "malformed keys: not on this node (topologyKeys is malformed: closed to the node itself)"},
		"local":             {``, true, Endpoint{Node: "a2", Ready: true}, "internalTrafficPolicy: not on this node (internalTrafficPolicy: Local)"},
		"other unit":        {`["site"]`, false, Endpoint{Node: "b1", Ready: true}, "topologyKeys: other unit: site=b, here a"},
		"two keys":          {`["site", "rack"]`, false, Endpoint{Node: "b1", Ready: true}, "topologyKeys: other unit: site=b, here a; this node's label rack is empty, so it is in no unit"},
		"three keys":        {`["zone", "site", "topology.kubernetes.io/zone"]`, false, Endpoint{Node: "b1", Ready: true}, "topologyKeys: this node has no label zone; other unit: site=b, here a; its node b1 has no label topology.kubernetes.io/zone"},
		"no node":           {`["site"]`, false, Endpoint{Ready: true}, "topologyKeys: has no nodeName, so it is in no unit"},
		"unknown node":      {`["site"]`, false, Endpoint{Node: "gone", Ready: true}, "topologyKeys: its node gone is not known"},
		"viewer's label":    {`["rack"]`, false, Endpoint{Node: "b1", Ready: true}, "topologyKeys: this node's label rack is empty, so it is in no unit"},
		"empty label":       {`["site"]`, false, Endpoint{Node: "empty", Ready: true}, "topologyKeys: the label site of its node empty is empty, so it is in no unit"},
		"node without unit": {`["site"]`, false, Endpoint{Node: "bare", Ready: true}, "topologyKeys: its node bare has no label site"},
		"viewer's unit":     {`["zone"]`, false, Endpoint{Node: "b1", Ready: true}, "topologyKeys: this node has no label zone"},
		"not ready":         {``, false, Endpoint{Node: "a1"}, "terminating: not ready"},
		"terminating":       {``, false, Endpoint{Node: "a1", Serving: true, Terminating: true}, "terminating: terminating, and ready ones exist"},
		"hinted away":       {``, false, Endpoint{Node: "a1", Ready: true, HintZones: []string{"z2"}}, "traffic hints: hinted to another zone or node"},
	} {
		b := NewBuilder()
		b.SetNode(&Node{Name: "a1", Labels: map[string]string{"site": "a", "rack": "", "topology.kubernetes.io/zone": "z1"}})
		b.SetNode(&Node{Name: "a2", Labels: map[string]string{"site": "a"}})
		b.SetNode(&Node{Name: "b1", Labels: map[string]string{"site": "b"}})
		b.SetNode(&Node{Name: "bare"})
		b.SetNode(&Node{Name: "empty", Labels: map[string]string{"site": ""}})
		key, ip := ObjectKey{"default", "web"}, netip.MustParseAddr("10.96.0.1")
		b.SetService(&Service{Key: key, TopologyKeys: &c.keys, InternalLocal: c.local, ClusterIPs: []netip.Addr{ip}, Ports: []ServicePort{{Protocol: TCP, Port: 80}}})
		near := Endpoint{Addr: netip.MustParseAddr("10.1.0.1"), Node: "a1", Ready: true, HintZones: []string{"z1"}}
		c.ep.Addr = netip.MustParseAddr("10.1.0.2")
		b.SetSlice(&Slice{Key: key, Service: "web", Ports: []SlicePort{{Protocol: TCP, Port: 8080}}, Endpoints: []Endpoint{near, c.ep}})
		snap := b.Build()
		var got []string
		for _, l := range Explain(snap, See(snap, "a1", Options{}), Options{}, key)[Frontend{ip, 80, TCP}] {
			if l.Addr.Addr() == c.ep.Addr {
				got = append(got, l.Rule+": "+l.Reason)
			}
		}
		if !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
