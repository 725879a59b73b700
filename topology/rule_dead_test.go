package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// Of a Service with two tiers, who is marked by whom a vote calls dead; and what people are
// told of each.
func TestTheVotedDeadAreMarked(t *testing.T) {
	b, key, keys := NewBuilder(), ObjectKey{"default", "web"}, `["site","*"]`
	b.SetService(&Service{Key: key, TopologyKeys: &keys, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: []ServicePort{{Protocol: TCP, Port: 80}}})
	slice := &Slice{Key: key, Service: "web", Ports: []SlicePort{{Protocol: TCP, Port: 8080}}}
	for i, node := range []string{"a-1", "a-2", "b-1"} {
		b.SetNode(&Node{Name: node, Labels: map[string]string{"site": node[:1]}})
		slice.Endpoints = append(slice.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: node, Ready: true})
	}
	slice.Endpoints = append(slice.Endpoints, Endpoint{Addr: netip.MustParseAddr("10.1.0.9"), Node: "a-2"}) // which is not ready
	b.SetSlice(slice)
	viewer := NewViewer("a-1", Options{})
	for _, c := range []struct{ dead, want, told string }{
		{"", "a-1 a-2 > b-1", ""},
		{"a-2", "a-1 a-2! > b-1", "a-2 others come first"},
		{"a-2 a-2 nobody", "a-1 a-2! > b-1", "a-2 others come first"},
		{"a-2 a-1", "a-1! a-2! > b-1", "a-1 others come first; a-2 others come first"},
		{"b-1", "a-1 a-2 > b-1!", "b-1 others come first"},
		{"b-1 a-1 a-2", "a-1 a-2 > b-1", "a-1 stays; a-2 stays; b-1 stays"},
		{"nobody", "a-1 a-2 > b-1", ""},
	} {
		snap := b.Build().WithDead(strings.Fields(c.dead))
		sv, _ := viewer.See(snap).Service(key)
		var tiers, told []string
		for _, tier := range sv.Frontends[0].Tiers {
			var ends []string
			for _, e := range tier.Endpoints {
				mark := ""
				if e.Dead {
					mark = "!"
				}
				ends = append(ends, e.Node+mark)
				switch text := snap.Death(e); {
				case strings.HasSuffix(text, "others come first"):
					told = append(told, e.Node+" others come first")
				case text != "":
					told = append(told, e.Node+" stays")
				}
			}
			tiers = append(tiers, strings.Join(ends, " "))
		}
		if got := strings.Join(tiers, " > "); got != c.want {
			t.Errorf("dead %q: %s, want %s", c.dead, got, c.want)
		}
		if got := strings.Join(told, "; "); got != c.told {
			t.Errorf("dead %q: told %q, want %q", c.dead, got, c.told)
		}
	}
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
