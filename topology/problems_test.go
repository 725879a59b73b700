package topology_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// Each mistake is told with object, field, what is done instead, and the cure;
// none opens a Service.
func TestProblems(t *testing.T) {
	key, text := ObjectKey{Namespace: "default", Name: "web"}, func(s string) *string { return &s }
	port := ServicePort{Protocol: TCP, Port: 80}
	manyKeys := `["a"` + strings.Repeat(`,"a"`, 5500) + `]`
	const object, keys = "service default/web: ", "metadata.annotations[topologyKeys]: "
	const closed = `; the Service is closed to the node itself until it is mended, for example '["site"]'`
	for name, c := range map[string]struct {
		service Service
		reading Reading
		want    string // "" for none
		tiers   int    // of endpoints on this node and another
	}{
		"no keys":      {Service{}, Ordered, "", 2},
		"a key":        {Service{TopologyKeys: text(`["site"]`)}, Ordered, "", 1},
		"no array":     {Service{TopologyKeys: text("site")}, Ordered, keys + "is no JSON array of strings: site" + closed, 1},
		"any first":    {Service{TopologyKeys: text(`["*","site"]`)}, Ordered, keys + `has "*" in place 1 of 2; it may only come last` + strings.Replace(closed, "site", `site", "*`, 1), 1},
		"no label key": {Service{TopologyKeys: text(`["a b"]`)}, Ordered, keys + `has "a b" in place 1, which is no label key` + strings.Replace(closed, "site", `a", "b`, 1), 1},
		"no array, union": {
			Service{TopologyKeys: text("site")},
			Union,
			keys + `is no JSON array of strings: site; by the reading union the Service is open to everybody until it is mended, for example '["site"]'`, 2,
		},
		"another case": {
			Service{TopologyKeys: text(`["site"]`), Misspelt: "topologykeys"},
			Ordered,
			"metadata.annotations[topologykeys]: is not topologyKeys, though it can be meant for nothing else: rename it to that, or remove it" + closed, 1,
		},
		"another name for what may be somebody else's": {
			Service{TopologyKeys: text("topology.kubernetes.io/zone"), Misspelt: "topologyKey"},
			Ordered,
			"metadata.annotations[topologyKey]: is not topologyKeys, and no JSON array of strings either: if it is meant for that, rename it and write '[\"topology.kubernetes.io/zone\"]'; until then it does nothing", 2,
		},
		"too long, and kept": {Service{TopologyKeys: text(KeptKeys(manyKeys))}, Ordered, keys + "has 22005 bytes, and more than 8192 are not read; write up to 16 keys" + strings.Replace(closed, "site", "unit", 1), 1},
		"too long":           {Service{TopologyKeys: text(manyKeys)}, Ordered, keys + "has 22005 bytes, and more than 8192 are not read; write up to 16 keys" + strings.Replace(closed, "site", "unit", 1), 1},
		"too long, another name": {
			Service{TopologyKeys: text(KeptKeys(manyKeys)), Misspelt: "topologyKey"},
			Ordered,
			"metadata.annotations[topologyKey]: is not topologyKeys, and has 22005 bytes, of which no more than 8192 are read: if it is meant for that, rename it and write '[\"unit\"]'; until then it does nothing", 2,
		},
		"another case of nothing": {Service{TopologyKeys: text(`[]`), Misspelt: "topologykeys"}, Ordered, "", 2},
		"a key of no node": {
			Service{TopologyKeys: text(`["rack","*"]`)},
			Ordered,
			keys + "no node has the label rack: nobody is in a unit of it; mend the key, or label the nodes", 2,
		},
		"a key of no node's value": {
			Service{TopologyKeys: text(`["empty"]`)},
			Ordered,
			keys + "no node has the label empty: nobody is in a unit of it; mend the key, or label the nodes", 0,
		},
		"a port twice": {Service{Ports: []ServicePort{port, {Name: "again", Protocol: TCP, Port: 80}}}, Ordered, "spec.ports: 10.96.0.1:80/tcp occurs twice; the first is served", 2},
		"sctp": {
			Service{Ports: []ServicePort{port, {Name: "s", Protocol: SCTP, Port: 80}}},
			Ordered,
			"spec.ports: 10.96.0.1:80/sctp is refused: sctp is not served, only tcp and udp are; use one of them, or run the agent with --datapath auto", 2,
		},
	} {
		b := NewBuilder()
		b.SetNode(&Node{Name: "a1", Labels: map[string]string{"site": "a", "empty": ""}})
		b.SetNode(&Node{Name: "b1", Labels: map[string]string{"site": "b"}})
		c.service.Key, c.service.ClusterIPs = key, []netip.Addr{netip.MustParseAddr("10.96.0.1")}
		if c.service.Ports == nil {
			c.service.Ports = []ServicePort{port}
		}
		b.SetService(&c.service)
		b.SetSlice(&Slice{Key: key, Service: "web", Ports: []SlicePort{{Protocol: TCP, Port: 8080}}, Endpoints: []Endpoint{
			{Addr: netip.MustParseAddr("10.1.0.1"), Node: "a1", Ready: true}, {Addr: netip.MustParseAddr("10.1.0.2"), Node: "b1", Ready: true},
		}})
		sv, _ := See(b.Build(), "a1", Options{Reading: c.reading}).Service(key)
		var got, want []string
		for _, p := range sv.Problems {
			got = append(got, p.String())
		}
		if c.want != "" {
			want = []string{object + c.want}
		}
		served := 0
		for _, tier := range sv.Frontends[0].Tiers {
			served += len(tier.Endpoints)
		}
		if !slices.Equal(got, want) || served != c.tiers {
			t.Errorf("%s: %d endpoints and problems\n%q\nwant %d and\n%q", name, served, got, c.tiers, want)
		}
	}
}

// Of a part of the data, and of no nodes at all, nobody can tell what no node
// has; what a node lacks is told as soon as one is known, and is taken back.
func TestAbsentKeysAreTold(t *testing.T) {
	b, keys, key := NewBuilder(), `["site"]`, ObjectKey{Namespace: "default", Name: "web"}
	b.SetService(&Service{Key: key, TopologyKeys: &keys})
	v := NewViewer("a1", Options{})
	told := func(what string, s *Snapshot, want int) {
		t.Helper()
		sv, _ := v.See(s).Service(key)
		if len(sv.Problems) != want {
			t.Errorf("%s: %v, want %d", what, sv.Problems, want)
		}
	}
	told("no node", b.Build(), 0)
	b.SetNode(&Node{Name: "a1"})
	part := *b.Build()
	part.Partial = true
	told("a part", &part, 0)
	told("a node without it", b.Build(), 1)
	b.SetNode(&Node{Name: "b1", Labels: map[string]string{"site": "b"}})
	told("a node with it", b.Build(), 0)
	b.DeleteNode("b1")
	told("it is gone", b.Build(), 1)
}

// What is not served is told, and is no Problem: a cluster full of node ports
// is not full of mistakes.
func TestNoticesAreNoProblems(t *testing.T) {
	b := NewBuilder()
	addresses := []netip.Addr{netip.MustParseAddr("10.96.0.1")}
	b.SetService(&Service{Key: ObjectKey{Namespace: "default", Name: "a"}, ClusterIPs: addresses, Unserved: UnservedNodePorts | UnservedAffinity})
	b.SetService(&Service{Key: ObjectKey{Namespace: "default", Name: "b"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.2")}})
	b.SetService(&Service{Key: ObjectKey{Namespace: "default", Name: "c"}}) // as no API server has it
	b.SetService(&Service{Key: ObjectKey{Namespace: "default", Name: "d"}, Headless: true})
	b.SetService(&Service{Key: ObjectKey{Namespace: "default", Name: "e"}, Foreign: true})
	view := See(b.Build(), "a1", Options{})
	var fields []string
	for _, p := range view.AllNotices() {
		fields = append(fields, p.Object+" "+p.Field)
	}
	if want := []string{"service default/a spec.sessionAffinity", "service default/a spec.ports[].nodePort", "service default/c spec.clusterIP"}; !slices.Equal(fields, want) {
		t.Errorf("notices of %q, want %q", fields, want)
	}
	if list := view.AllProblems(); len(list) > 0 {
		t.Errorf("problems: %v", list)
	}
}

// Keys of a headless Service that no grid made do nothing, for the cluster's DNS
// answers for it: whoever wrote them is told so, once, and not that it is closed.
func TestHeadlessKeysInVainAreTold(t *testing.T) {
	key, text := ObjectKey{Namespace: "default", Name: "db"}, func(s string) *string { return &s }
	const vain = "does nothing: the Service is headless and of no grid"
	for name, c := range map[string]struct {
		service Service
		reading Reading
		want    string // how the only problem begins; "" for none
	}{
		"a key":                         {Service{Headless: true, TopologyKeys: text(`["site"]`)}, Ordered, "metadata.annotations[topologyKeys]: " + vain},
		"a key, then anybody":           {Service{Headless: true, TopologyKeys: text(`["site","*"]`)}, Ordered, "metadata.annotations[topologyKeys]: " + vain},
		"a key of no node":              {Service{Headless: true, TopologyKeys: text(`["rack"]`)}, Ordered, "metadata.annotations[topologyKeys]: " + vain},
		"malformed":                     {Service{Headless: true, TopologyKeys: text("site")}, Ordered, "metadata.annotations[topologyKeys]: " + vain},
		"another name":                  {Service{Headless: true, TopologyKeys: text(`["site"]`), Misspelt: "topologykeys"}, Ordered, "metadata.annotations[topologykeys]: " + vain},
		"union":                         {Service{Headless: true, TopologyKeys: text(`["site"]`)}, Union, "metadata.annotations[topologyKeys]: " + vain},
		"anybody, which is what it has": {Service{Headless: true, TopologyKeys: text(`["*"]`)}, Ordered, ""},
		"union, anybody":                {Service{Headless: true, TopologyKeys: text(`["site","*"]`)}, Union, ""},
		"no keys":                       {Service{Headless: true, TopologyKeys: text(`[]`)}, Ordered, ""},
		"of a grid":                     {Service{Headless: true, TopologyKeys: text(`["site"]`), GridKey: "site"}, Ordered, ""},
		"of a grid, malformed":          {Service{Headless: true, TopologyKeys: text("site"), GridKey: "site"}, Ordered, "metadata.annotations[topologyKeys]: is no JSON array"},
		"with a ClusterIP":              {Service{TopologyKeys: text(`["site"]`)}, Ordered, ""},
	} {
		b := NewBuilder()
		b.SetNode(&Node{Name: "a1", Labels: map[string]string{"site": "a"}})
		c.service.Key = key
		b.SetService(&c.service)
		problems := See(b.Build(), "a1", Options{Reading: c.reading}).AllProblems()
		switch {
		case c.want == "" && len(problems) > 0:
			t.Errorf("%s: %v, want none", name, problems)
		case c.want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].String(), "service default/db: "+c.want)):
			t.Errorf("%s: %v, want one that begins with %q", name, problems, c.want)
		}
	}
}
