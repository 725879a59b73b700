package guard

import (
	"net/netip"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// What is left out of a snapshot stays the same object as long as nothing of it changes, or every view would be made
// anew with each; and a snapshot of which nothing is left out is itself.
func TestClusterIPsThatAreLeftOut(t *testing.T) {
	b := topology.NewBuilder()
	set := func(name string, ips ...string) {
		s := &topology.Service{Key: topology.ObjectKey{Namespace: "tenant", Name: name}}
		for _, ip := range ips {
			s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr(ip))
		}
		b.SetService(s)
	}
	mine := topology.ObjectKey{Namespace: "tenant", Name: "mine"}
	by := Own{Servers: prefixes("10.0.0.5/32"), Guarded: prefixes("10.96.0.0/16")}
	var c ClusterIPs
	set("web", "10.96.0.1")
	if first := b.Build(); c.Next(first, by) != first || c.Any() {
		t.Error("a snapshot in which all is right is another")
	}
	set("mine", "10.0.0.5", "fd00::5")
	raw := b.Build()
	out := c.Next(raw, by)
	entry, _ := out.Services.Get(mine)
	if s := entry.Service; len(s.ClusterIPs) != 1 || s.ClusterIPs[0] != netip.MustParseAddr("fd00::5") || len(s.Problems) != 1 {
		t.Errorf("left is %v, with %v", s.ClusterIPs, s.Problems)
	}
	if was, _ := raw.Services.Get(mine); len(was.Service.ClusterIPs) != 2 || len(was.Service.Problems) > 0 {
		t.Errorf("the source's own was written to: %+v", was.Service)
	}
	set("web", "10.96.0.2")
	for _, by := range []Own{by, {Servers: prefixes("10.0.0.5/32", "10.0.0.6/32"), Guarded: by.Guarded}} {
		if again, _ := c.Next(b.Build(), by).Services.Get(mine); again != entry {
			t.Error("it is made anew, though nothing of it changed")
		}
	}
	b.DeleteService(mine)
	if last := b.Build(); c.Next(last, by) != last || c.Any() {
		t.Error("what is gone is left out still")
	}
}
