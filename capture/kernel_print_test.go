package capture

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// everyPick is what brings each kind of pick into force.
func everyPick() map[string][]plan.KernelFrontend {
	all := map[string][]plan.KernelFrontend{}
	for i, names := range [][]string{nil, {"b"}, {"a", "b"}, {"a", "b", "far"}} {
		for _, keep := range []time.Duration{0, time.Hour} {
			for _, ipv6 := range []bool{false, true} {
				cluster, door := "10.96.1.%d:80", "0.0.0.0:%d"
				if ipv6 {
					cluster, door = "[fd00:96::1:%d]:80", "[::]:%d"
				}
				n := 10*i + int(keep/time.Hour)
				service := fmt.Sprintf("default/s%d-%v", n, ipv6)
				f := plan.KernelFrontend{Frontend: tcp(fmt.Sprintf(cluster, n)), Tiers: tiers(ipv6, names...), Affinity: keep, Session: service}
				local, anybody := f, f
				local.Frontend, local.Outside = tcp(fmt.Sprintf(door, 31000+n)), &plan.KernelOutside{Local: true, LocalTiers: tiers(ipv6, names...)}
				anybody.Frontend, anybody.Outside, anybody.Crowd = onPort(fmt.Sprintf(door, 32000+n), topology.UDP), &plan.KernelOutside{}, plan.CrowdAnywhere
				all[service] = []plan.KernelFrontend{f, local, anybody}
			}
		}
	}
	return all
}

// nft(8) prints every rule of the kernel path, as text and as JSON, also 1.0.6: who cannot
// list all tables loses them all where a file is written of the list.
func TestNftPrintsTheKernelPath(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	all := everyPick()
	must(t, c.setKernel(all, false))
	text, document := nftCommand(t, "", "list", "ruleset"), nftCommand(t, "", "-j", "list", "ruleset")
	// 1.0.6 has no JSON for what writes into a map, says so before, and gives its text.
	_, document, _ = strings.Cut(document, `{"nftables":`)
	document = `{"nftables":` + document
	if !json.Valid([]byte(document)) {
		t.Errorf("this is no JSON: %s", document)
	}
	_, picks := c.kernel.planner.Plan()
	kinds := map[string]bool{}
	for _, p := range picks {
		name := rules.PickName(p)
		if !strings.Contains(text, "chain "+name+" {") || !strings.Contains(document, `"`+name+`"`) {
			t.Errorf("nft lists no chain %s", name)
		}
		kinds[fmt.Sprint(p.IPv6, p.Near, p.Among, p.Sticky > 0, p.Many)] = true
	}
	if len(kinds) < 24 {
		t.Errorf("%d kinds of picks: %v", len(kinds), kinds)
	}
}

// What is told of a chain or a memory alone is what is told of it with the whole table.
func TestApartIsOfTheTable(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	must(t, c.setKernel(everyPick(), false))
	k := c.kernel.table
	found, err := k.found()
	must(t, err)
	var names []string
	for name := range found.Apart {
		if name != "" {
			names = append(names, name)
		}
	}
	apart, err := k.conn.ApartOf(k.nft.Family, k.nft.Name, names)
	must(t, err)
	delete(found.Apart, "")
	if !maps.Equal(apart, found.Apart) || len(names) < 40 {
		t.Errorf("of %d chains and memories:\n%v\nwant\n%v", len(names), apart, found.Apart)
	}
}
