package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// What names stand for on the node a1, of site a and region r, by the keys and
// their reading: the members, and each pod as "ordinal own reason".
func TestNames(t *testing.T) {
	const malformed, other, later = "not on this node (topologyKeys is malformed: closed to the node itself)", "not in this node's unit", "an earlier tier has ready endpoints"
	for _, c := range []struct {
		keys    string
		reading Reading
		on      []string // nodes that pods are on
		members string   // nodes of members
		pods    []string
	}{
		{`["site"]`, Ordered, []string{"a1", "a2", "b1"}, "a1 a2", []string{"db-0 own", "db-0 own", "db-0 " + other}},
		{`["site"]`, Ordered, []string{"b1"}, "", []string{"db-0 " + other}},
		{`["site"]`, Ordered, []string{"gone", ""}, "", []string{" " + other, " " + other}},
		{`["site","*"]`, Ordered, []string{"a1", "b1"}, "a1", []string{"db-0 own", "db-0 " + later}},
		{`["site","*"]`, Ordered, []string{"b1", "c1"}, "b1 c1", []string{"db-0", "db-0"}},
		{`["site","region"]`, Ordered, []string{"b1", "c1"}, "b1", []string{"db-0", "db-0 " + other}},
		{`["site","region"]`, Union, []string{"a1", "b1", "c1"}, "a1 b1", []string{"db-0 own", "db-0", "db-0 " + other}},
		{`["site","*"]`, Union, []string{"a1", "b1"}, "a1 b1", []string{"db-0 own", "db-0"}},
		// Without keys of its own, a grid's Service has the units of its grid.
		{`["*"]`, Ordered, []string{"a1", "b1"}, "a1 b1", []string{"db-0 own", "db-0"}},
		{``, Ordered, []string{"a1", "b1"}, "a1 b1", []string{"db-0 own", "db-0"}},
		{`site`, Ordered, []string{"a1", "a2", "b1"}, "a1", []string{"db-0 own", "db-0 own " + malformed, "db-0 " + malformed}},
		{`site`, Union, []string{"a1", "b1"}, "a1 b1", []string{"db-0 own", "db-0"}},
	} {
		b := NewBuilder()
		for name, labels := range map[string]string{"a1": "a r", "a2": "a r", "b1": "b r", "c1": "c s"} {
			site, region, _ := strings.Cut(labels, " ")
			b.SetNode(&Node{Name: name, Labels: map[string]string{"site": site, "region": region}})
		}
		key := ObjectKey{Namespace: "default", Name: "db"}
		b.SetService(&Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &c.keys})
		s := &Slice{Key: key, Service: "db"}
		for i, node := range c.on {
			unit := strings.TrimRight(node, "12")
			s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: node, Hostname: "db-" + unit + "-0", Ready: true})
		}
		b.SetSlice(s)
		sv, _ := See(b.Build(), "a1", Options{Reading: c.reading}).Service(key)
		var members, pods []string
		for _, m := range sv.Members {
			members = append(members, m.Node)
		}
		for _, p := range sv.Pods {
			own := ""
			if p.Own {
				own = " own"
			}
			pods = append(pods, strings.TrimRight(fmt.Sprint(p.Ordinal, own, " ", p.Reason), " "))
		}
		if got := strings.Join(members, " "); got != c.members || !slices.Equal(pods, c.pods) {
			t.Errorf("%s %s on %v: members %q, pods %q; want %q, %q", c.keys, c.reading, c.on, got, pods, c.members, c.pods)
		}
	}
}

// The ready pods of a Service with a ClusterIP have names below it, ordinals
// among them; without keys they are not kept a second time.
func TestNamesOfClusterIPServices(t *testing.T) {
	b, keys, key, plain := NewBuilder(), `["site"]`, ObjectKey{Namespace: "default", Name: "db"}, ObjectKey{Namespace: "default", Name: "plain"}
	b.SetNode(&Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	b.SetService(&Service{Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, TopologyKeys: &keys})
	b.SetService(&Service{Key: plain, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.2")}})
	b.SetService(&Service{Key: ObjectKey{Namespace: "default", Name: "foreign"}, Foreign: true})
	endpoints := []Endpoint{
		{Addr: netip.MustParseAddr("10.1.0.1"), Node: "a1", Hostname: "db-a-0", Ready: true},
		{Addr: netip.MustParseAddr("10.1.0.2"), Node: "a1", Hostname: "web", Ready: true},
		{Addr: netip.MustParseAddr("10.1.0.3"), Node: "a1", Ready: true},
		{Addr: netip.MustParseAddr("10.1.0.4"), Node: "a1", Hostname: "db-a-1"},
	}
	for _, name := range []string{"db", "plain", "foreign"} {
		b.SetSlice(&Slice{Key: ObjectKey{Namespace: "default", Name: name}, Service: name, Endpoints: endpoints})
	}
	view := See(b.Build(), "a1", Options{})
	for service, want := range map[string]struct {
		pods  int
		named string
	}{
		"db":      {3, "db-0 own 10.1.0.1,  own 10.1.0.2,  own 10.1.0.3"},
		"plain":   {0, " 10.1.0.1,  10.1.0.2,  10.1.0.3"},
		"foreign": {0, ""},
	} {
		sv, _ := view.Service(ObjectKey{Namespace: "default", Name: service})
		var named []string
		for p := range sv.Named() {
			own := ""
			if p.Own {
				own = " own"
			}
			named = append(named, p.Ordinal+own+" "+p.Addr.String())
		}
		if got := strings.Join(named, ", "); len(sv.Members) != 0 || len(sv.Pods) != want.pods || got != want.named {
			t.Errorf("%s: members %v, %d pods, named %q; want %+v", service, sv.Members, len(sv.Pods), got, want)
		}
	}
}

// With OrdinalsAll the own unit's pods have an ordinal before they are ready,
// and no other name; a ready pod's is its own.
func TestOrdinalsOfPodsThatWait(t *testing.T) {
	b, keys, key := NewBuilder(), `["site","*"]`, ObjectKey{Namespace: "default", Name: "db"}
	b.SetNode(&Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	b.SetNode(&Node{Name: "b1", Labels: map[string]string{"site": "b"}})
	b.SetService(&Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &keys})
	b.SetSlice(&Slice{Key: key, Service: "db", Endpoints: []Endpoint{
		{Addr: netip.MustParseAddr("10.1.0.1"), Node: "a1", Hostname: "db-a-0", Ready: true},
		{Addr: netip.MustParseAddr("10.1.0.2"), Node: "a1", Hostname: "db-a-1"},
		{Addr: netip.MustParseAddr("10.1.0.3"), Node: "a1", Hostname: "db-a-0", Terminating: true},
		{Addr: netip.MustParseAddr("10.1.0.4"), Node: "a1", Hostname: "web"},
		{Addr: netip.MustParseAddr("10.2.0.2"), Node: "b1", Hostname: "db-b-1"},
	}})
	for ordinals, want := range map[Ordinals]string{OrdinalsReady: "", OrdinalsAll: "db-1 10.1.0.2"} {
		sv, _ := See(b.Build(), "a1", Options{Ordinals: ordinals}).Service(key)
		var got []string
		for _, p := range sv.Waiting {
			got = append(got, p.Ordinal+" "+p.Addr.String())
		}
		if strings.Join(got, ", ") != want || len(sv.Pods) != 1 || len(sv.Members) != 1 {
			t.Errorf("ordinals %d: waiting %q, want %q; %d pods, %d members", ordinals, got, want, len(sv.Pods), len(sv.Members))
		}
	}
}
