package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// Who is marked by whom a vote calls dead, by the Service's keys, as b-1 is far and a-1 and
// a-2 are not; and what people are told of each.
func TestTheVotedDeadAreMarked(t *testing.T) {
	key := ObjectKey{"default", "web"}
	slice := &Slice{Key: key, Service: "web", Ports: []SlicePort{{Protocol: TCP, Port: 8080}}}
	b := NewBuilder()
	for i, node := range []string{"a-1", "a-2", "b-1"} {
		b.SetNode(&Node{Name: node, Labels: map[string]string{"site": node[:1], "rack": node, "region": "r"}})
		slice.Endpoints = append(slice.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: node, Ready: true})
	}
	slice.Endpoints = append(slice.Endpoints, Endpoint{Addr: netip.MustParseAddr("10.1.0.9"), Node: "a-2"}) // which is not ready
	b.SetSlice(slice)
	for _, c := range []struct{ keys, dead, want, told string }{
		{`["site","*"]`, "", "a-1 a-2 > b-1", ""},
		{`["site","*"]`, "a-2", "a-1 a-2! > b-1", "a-2 others come first"},
		{`["site","*"]`, "a-2 a-2 nobody", "a-1 a-2! > b-1", "a-2 others come first"},
		{`["site","*"]`, "a-2 a-1", "a-1 a-2 > b-1", "a-1 stays; a-2 stays"}, // who is far may be behind the uplink
		{`["site","*"]`, "b-1", "a-1 a-2 > b-1!", "b-1 others come first"},
		{`["site","*"]`, "b-1 a-1 a-2", "a-1 a-2 > b-1", "a-1 stays; a-2 stays; b-1 stays"},
		{`["site","*"]`, "nobody", "a-1 a-2 > b-1", ""},
		{`["rack","site"]`, "a-1", "a-1! > a-2", "a-1 others come first"},
		{`["rack","site"]`, "a-2", "a-1 > a-2!", "a-2 others come first"},
		{`["rack","site"]`, "a-1 a-2", "a-1 > a-2", "a-1 stays; a-2 stays"},
		{`["site","region"]`, "a-1 a-2", "a-1! a-2! > b-1", "a-1 others come first; a-2 others come first"}, // a wider key is taken at its word
		{`["site","region"]`, "a-1 a-2 b-1", "a-1 a-2 > b-1", "a-1 stays; a-2 stays; b-1 stays"},
		{`["rack","*"]`, "a-1 a-2", "a-1 > a-2! b-1", "a-1 stays; a-2 others come first"},
		{`["other","*"]`, "a-1 a-2", "a-1! a-2! b-1", "a-1 others come first; a-2 others come first"},
		{`["*"]`, "a-1 a-2", "a-1! a-2! b-1", "a-1 others come first; a-2 others come first"},
		{``, "a-1 a-2", "a-1! a-2! b-1", "a-1 others come first; a-2 others come first"},
		{``, "a-1 a-2 b-1", "a-1 a-2 b-1", "a-1 stays; a-2 stays; b-1 stays"},
	} {
		s := &Service{Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: []ServicePort{{Protocol: TCP, Port: 80}}}
		if c.keys != "" {
			s.TopologyKeys = &c.keys
		}
		b.SetService(s)
		snap := b.Build().WithDead(strings.Fields(c.dead))
		sv, _ := See(snap, "a-1", Options{}).Service(key)
		tiers, told := marks(snap, sv.Frontends[0].Tiers)
		if tiers != c.want {
			t.Errorf("keys %s, dead %q: %s, want %s", c.keys, c.dead, tiers, c.want)
		}
		if told != c.told {
			t.Errorf("keys %s, dead %q: told %q, want %q", c.keys, c.dead, told, c.told)
		}
	}
}

// marks are tiers by nodes, those that are voted dead with a mark, and what is told of them.
func marks(snap *Snapshot, of []Tier) (tiers, told string) {
	var list, words []string
	for _, tier := range of {
		var ends []string
		for _, e := range tier.Endpoints {
			mark := ""
			if e.Dead {
				mark = "!"
			}
			ends = append(ends, e.Node+mark)
			switch text := snap.Death(e); {
			case strings.HasSuffix(text, "others come first"):
				words = append(words, e.Node+" others come first")
			case strings.HasSuffix(text, "it stays as it was"):
				words = append(words, e.Node+" stays")
			}
		}
		list = append(list, strings.Join(ends, " "))
	}
	return strings.Join(list, " > "), strings.Join(words, "; ")
}

// A vote evaluates again who has endpoints there, and nobody else.
func TestAVoteCostsItsOwn(t *testing.T) {
	b := NewBuilder()
	for i := range 3 {
		node, name := fmt.Sprint("n", i), fmt.Sprint("s", i)
		key := ObjectKey{"default", name}
		b.SetNode(&Node{Name: node})
		b.SetService(&Service{Key: key, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(i)})}, Ports: []ServicePort{{Protocol: TCP, Port: 80}}})
		b.SetSlice(&Slice{Key: key, Service: name, Ports: []SlicePort{{Protocol: TCP, Port: 80}}, Endpoints: []Endpoint{{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: node, Ready: true}}})
	}
	v := NewViewer("n0", Options{})
	last := v.See(b.Build())
	for _, c := range []struct {
		dead []string
		want string
	}{{[]string{"n1"}, "[default/s1]"}, {[]string{"n1", "n2"}, "[default/s2]"}, {[]string{"n2"}, "[default/s1]"}, {nil, "[default/s2]"}} {
		next := v.See(b.Build().WithDead(c.dead))
		if got := fmt.Sprint(slices.Collect(next.Changed(last))); got != c.want {
			t.Errorf("dead %v: %s changed, want %s", c.dead, got, c.want)
		}
		last = next
	}
}

// The same dead are the same snapshot.
func TestWithDead(t *testing.T) {
	b := NewBuilder()
	b.SetNode(&Node{Name: "a"})
	b.SetNode(&Node{Name: "b"})
	snap := b.Build()
	if snap.WithDead(nil) != snap || snap.WithDead([]string{"nobody"}) != snap {
		t.Error("nobody is dead, and it is another snapshot")
	}
	dead := snap.WithDead([]string{"b", "a", "b"})
	if !slices.Equal(dead.Dead, []string{"a", "b"}) || snap.Dead != nil || dead.WithDead([]string{"a", "b"}) != dead {
		t.Errorf("%v, %v", dead.Dead, snap.Dead)
	}
	if back := dead.WithDead(nil); len(back.Dead) > 0 {
		t.Errorf("still dead: %v", back.Dead)
	}
}
