package capture

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// What a look at a node with 300 pods costs, every 5 s: its links, the rules of
// routing that it should have by them, and all of it.
func BenchmarkLookAtManyPods(b *testing.B) {
	n := testkit.NewNetwork(b)
	for i := range 300 {
		la := netlink.NewLinkAttrs()
		la.Name = fmt.Sprint("pod", i)
		must(b, netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: fmt.Sprint("peer", i)}))
	}
	c, err := New(config(), Host{b.TempDir(), "/proc/sys"})
	must(b, err)
	must(b, c.Install(config().ServiceCIDRs))
	defer func() { must(b, c.Remove()) }()
	if all, err := links.Read(""); len(all) < 600 {
		b.Fatalf("%d links, %v", len(all), err)
	}
	for name, look := range map[string]func() error{
		"bridges":              func() error { _, err := c.look(); return err },
		"links, once a minute": func() error { _, err := links.Read(""); return err },
		"routes":               func() error { _, err := c.routing().Repair(); return err },
		"Repair":               func() error { _, err := c.Repair(); return err },
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
