package capture

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/topology"
)

// A write that has nothing to change is no transaction: what somebody else
// wrote meanwhile is not taken for it.
func TestForeignHandsBesideAWriteOfNothing(t *testing.T) {
	t.Parallel()
	both := topology.Frontend{Addr: netip.MustParseAddr("10.96.0.2"), Protocol: topology.TCP, Port: 80}
	for name, write := range map[string]func(t *testing.T, c *Capture, k *cluster, foreign func()){
		"clients": func(t *testing.T, c *Capture, _ *cluster, foreign func()) {
			clients := NewClients(c, func() (share, all int) { return 1, 0 }, slog.New(slog.DiscardHandler))
			defer func() { clients.conn.Close() }()
			must(t, clients.write(nil))
			foreign()
			must(t, clients.write(nil))
		},
		"elements that are there": func(t *testing.T, c *Capture, k *cluster, foreign func()) {
			foreign() // one of which it adds itself
			apply(t, c, k.serve("api", "10.96.0.2", "10.244.0.6").view(), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := started(t, config())
			k := newCluster().serve("web", "10.96.0.1", "10.244.0.5")
			apply(t, c, k.view(), false)
			for again := true; again; { // until it knows that nobody wrote since
				var err error
				again, err = c.Repair()
				must(t, err)
			}
			write(t, c, k, func() {
				other, err := nftables.New()
				must(t, err)
				serve := c.table.sets["serve4"]
				other.FlushSet(serve)
				must(t, other.SetAddElements(serve, []nftables.SetElement{frontendElement(both)}))
				other.FlushSet(c.table.sets["hairpin4"])
				must(t, other.SetAddElements(c.table.sets["hairpin4"], []nftables.SetElement{hairpinElement(netip.MustParseAddr("10.244.0.6"))}))
				must(t, other.Flush())
			})
			if repaired, err := c.Repair(); !repaired || err != nil || !serves(t, web) {
				t.Errorf("repaired %v, %v: %v", repaired, err, elements(t))
			}
		})
	}
}
