package answer

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// Names in which one part looks like another: each ordinal is the pod whose
// set and unit it says, and nobody else's.
func TestOrdinalsThatLookAlike(t *testing.T) {
	long := strings.Repeat("x", 59) // with "-c-0", a label of 63
	for _, c := range []struct {
		unit, pod string // of the unit's node
		ordinal   string // what the pod is in its unit; "" for none
	}{
		{"c", "demo-c-0", "demo-0"},
		{"c", "my-demo-c-0", "my-demo-0"},
		{"c", "c-c-0", "c-0"},
		{"c", "c-shop-c-0", "c-shop-0"}, // the unit's value inside the set's name
		{"c", "a-b-c-0", "a-b-0"},       // a-b in c, not a in b-c
		{"b-c", "a-b-c-0", "a-0"},
		{"1", "db-1-1", "db-1"},
		{"0", "db-0-0", "db-0"},
		{"c", "DB-c-0", "db-0"},
		{"c", "demo-d-0", ""}, // moved: its name is of another unit
		{"c", "demo-c-x", ""},
		{"c", "demo-c", ""},
		{"c", "c-0", ""},
		{"c", "-c-0", ""},
		{"c", "demo-cc-0", ""},
		{"c", "demo-c-00000000000", ""},
		{"", "demo--0", ""},
		{"c", long + "-c-0", long + "-0"},
	} {
		b := topology.NewBuilder()
		keys := `["site"]`
		b.SetNode(&topology.Node{Name: "n", Labels: map[string]string{"site": c.unit}})
		b.SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "default", Name: "svc"}, Headless: true, GridKey: "site", TopologyKeys: &keys})
		ip := netip.MustParseAddr("10.1.0.1")
		b.SetSlice(&topology.Slice{Key: topology.ObjectKey{Namespace: "default", Name: "svc-1"}, Service: "svc", Endpoints: []topology.Endpoint{{Addr: ip, Node: "n", Hostname: c.pod, Ready: true}}})
		s := b.Build()
		x := New(Config{}).Next(topology.See(s, "n", topology.Options{}))
		names := map[string]bool{}
		for line := range strings.Lines(string(x.Hosts("zone"))) {
			_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			names[strings.TrimSuffix(name, ".svc.default.svc.zone")] = true
		}
		if got, want := fmt.Sprint(names), fmt.Sprint(map[string]bool{c.ordinal: true}); c.ordinal != "" && got != want || c.ordinal == "" && len(names) > 0 {
			t.Errorf("%s in %q: ordinals %v, want %q", c.pod, c.unit, names, c.ordinal)
		}
		if c.ordinal != "" {
			if a := x.Lookup(c.ordinal+".svc.default", A); len(a.Addrs) != 1 || a.Addrs[0] != ip {
				t.Errorf("%s in %q: %s is %+v", c.pod, c.unit, c.ordinal, a)
			}
		}
	}
}
