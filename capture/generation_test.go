package capture

import (
	"log/slog"
	"math"
	"net/netip"
	"testing"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/topology"
)

// Only what was written without anybody else in between is known for harmless.
func TestHarmlessTransactions(t *testing.T) {
	const last = math.MaxUint32
	for name, tc := range map[string]struct {
		wrote     [][2]uint32
		gen, want uint32
	}{
		"nothing":               {nil, 7, 7},
		"one":                   {[][2]uint32{{7, 8}}, 7, 8},
		"some":                  {[][2]uint32{{7, 8}, {8, 9}, {9, 10}}, 8, 10},
		"all of them known":     {[][2]uint32{{7, 8}, {8, 9}}, 9, 9},
		"others before":         {[][2]uint32{{7, 8}}, 6, 6},
		"others after":          {[][2]uint32{{7, 8}}, 9, 9},
		"others between two":    {[][2]uint32{{7, 8}, {9, 10}}, 7, 7},
		"others with one":       {[][2]uint32{{7, 8}, {8, 10}}, 7, 7},
		"after others with one": {[][2]uint32{{7, 8}, {8, 10}, {10, 11}}, 10, 11},
		"unknown":               {[][2]uint32{{last, 1}}, 0, 0},
		"around the end":        {[][2]uint32{{last - 1, last}, {last, 1}, {1, 2}}, last, 2},
		"around, others before": {[][2]uint32{{last, 1}, {1, 2}}, last - 1, last - 1},
	} {
		var h harmless
		for _, w := range tc.wrote {
			h.add(w[0], w[1])
		}
		if got := h.after(tc.gen); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// A write that has nothing to change is no transaction: what somebody else
// wrote meanwhile is not taken for it.
func TestForeignHandsBesideAWriteOfNothing(t *testing.T) {
	both := topology.Frontend{Addr: netip.MustParseAddr("10.96.0.2"), Protocol: topology.TCP, Port: 80}
	for name, write := range map[string]func(t *testing.T, c *Capture, k *cluster, foreign func()){
		"clients": func(t *testing.T, c *Capture, _ *cluster, foreign func()) {
			clients := NewClients(c, func() int { return 1 }, slog.New(slog.DiscardHandler))
			conn := clients.nftables()
			defer conn.Close()
			before, err := conn.Generation()
			must(t, err)
			must(t, clients.flush(conn, nil))
			foreign()
			must(t, clients.wroteFrom(conn, before, nil))
		},
		"elements that are there": func(t *testing.T, c *Capture, k *cluster, foreign func()) {
			foreign() // one of which it adds itself
			apply(t, c, k.serve("api", "10.96.0.2", "10.244.0.6").view(), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
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
