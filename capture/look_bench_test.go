package capture

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// What Repair costs at 10k Services when others wrote: into a table of their own,
// and into ours.
func BenchmarkRepairAmongOthers(b *testing.B) {
	n := testkit.NewNetwork(b)
	c, err := New(config(), Host{StateDir: b.TempDir(), ProcSys: "/proc/sys"})
	must(b, err)
	must(b, c.Install(config().ServiceCIDRs))
	defer func() { must(b, c.Remove()) }()
	k, ip := newCluster(), netip.MustParseAddr("10.96.1.0")
	for range 10000 {
		k.serve("s-"+ip.String(), ip.String(), "10.244.0.7")
		ip = ip.Next()
	}
	must(b, c.Retract(k.view(), false))
	must(b, c.Extend())
	other, err := nftables.New(nftables.AsLasting())
	must(b, err)
	defer func() { must(b, other.CloseLasting()) }()
	for _, name := range []string{"theirs", rules.Name} {
		b.Run(name, func(b *testing.B) {
			must(b, n.Do(func() error {
				for b.Loop() {
					b.StopTimer()
					t := other.AddTable(&nftables.Table{Name: name, Family: nftables.TableFamilyINet})
					if name == rules.Name { // nothing that is to be repaired
						other.FlushSet(&nftables.Set{Table: t, Name: rules.Layout})
						if err := other.SetAddElements(&nftables.Set{Table: t, Name: rules.Layout}, []nftables.SetElement{{Key: []byte{0, 1}}}); err != nil {
							return err
						}
					}
					set := &nftables.Set{Table: t, Name: "x", KeyType: nftables.TypeInetService}
					if name != rules.Name {
						if err := other.AddSet(set, []nftables.SetElement{{Key: []byte{0, 80}}}); err != nil {
							return err
						}
						other.DelSet(set)
					}
					if err := other.Flush(); err != nil {
						return err
					}
					b.StartTimer()
					if _, err := c.Repair(); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

// What a look at a node with 300 pods costs, every 5 s: its links, the rules of
// routing that it should have by them, and all of it.
func BenchmarkLookAtManyPods(b *testing.B) {
	n := testkit.NewNetwork(b)
	for i := range 300 {
		la := netlink.NewLinkAttrs()
		la.Name = fmt.Sprint("pod", i)
		must(b, netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: fmt.Sprint("peer", i)}))
	}
	c, err := New(config(), Host{StateDir: b.TempDir(), ProcSys: "/proc/sys"})
	must(b, err)
	must(b, c.Install(config().ServiceCIDRs))
	defer func() { must(b, c.Remove()) }()
	if all, err := links.Read(""); len(all) < 600 {
		b.Fatalf("%d links, %v", len(all), err)
	}
	for name, look := range map[string]func() error{
		"bridges":               func() error { _, err := c.look(links.Read); return err },
		"links, once a minute":  func() error { _, err := links.Read(""); return err },
		"routes":                func() error { _, err := c.routing().Repair(); return err },
		"Permitted, at a start": Permitted,
		"Inspect":               func() error { _, err := c.Inspector()(); return err },
		"Networks":              func() error { _, err := Networks(config().ServiceCIDRs); return err },
		"Repair":                func() error { _, err := c.Repair(); return err },
	} {
		b.Run(name, func(b *testing.B) {
			must(b, n.Do(func() error { // which no other thread is in
				for b.Loop() {
					if err := look(); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}
