package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Where there is no room for all, whoever wants much is denied before who wants little;
// and who has a memory keeps it, whatever a larger one adds.
func TestMemoriesAreSharedFairly(t *testing.T) {
	p := newPaced()
	p.memories.room = 8 * fewClients
	add := func(service string, ip byte) {
		p.Set(service, []KernelFrontend{{
			Frontend: topology.Frontend{Addr: netip.AddrFrom4([4]byte{10, 96, 0, ip}), Port: 80, Protocol: topology.TCP},
			Tiers:    [][]netip.AddrPort{tier("10.244.0.1:80", "10.244.0.2:80")}, Affinity: time.Hour, Session: service,
		}})
	}
	has := func() map[string]bool {
		t.Helper()
		p.step(nil)
		p.step(nil) // whom there is room for has his turn
		e, picks := p.Plan()
		remembered := map[string]bool{}
		for service, list := range p.services {
			i := slices.IndexFunc(e.Fronts, func(f Front) bool { return f.Frontend == list[0].Frontend })
			remembered[service] = e.Fronts[i].Pick.Sticky > 0
		}
		if clients := len(picks) * fewClients; clients > p.memories.room+fewClients {
			t.Errorf("%d clients may be remembered", clients)
		}
		return remembered
	}
	for i := range 2 {
		add(fmt.Sprintf("small/%d", i), byte(i))
	}
	for i := range 100 {
		add(fmt.Sprintf("large/%02d", i), byte(100+i))
		if got := has(); !got["small/0"] || !got["small/1"] || i < 6 && !got[fmt.Sprintf("large/%02d", i)] || i >= 6 && got[fmt.Sprintf("large/%02d", i)] {
			t.Fatalf("with %d of the large one's: %v", i+1, got)
		}
	}
	if got := fmt.Sprint(p.Forgotten()); got != "[large]" {
		t.Errorf("told are %s", got)
	}
	for i := range 4 {
		add(fmt.Sprintf("third/%d", i), byte(10+i))
	}
	got := has()
	n := map[string]int{}
	for service, remembered := range got {
		if remembered {
			n[namespaceOf(service)]++
		}
	}
	if want := map[string]int{"small": 2, "large": 3, "third": 3}; !maps.Equal(n, want) {
		t.Errorf("of three %v have a memory, want %v", n, want)
	}
	for service := range p.services {
		if namespaceOf(service) != "third" {
			p.Set(service, nil)
		}
	}
	if got := has(); !got["third/3"] || len(p.Forgotten()) > 0 {
		t.Errorf("alone: %v, forgotten %v", got, p.Forgotten())
	}
}

// An endpoint has the same name whatever others there are.
func TestNamesOfEndpoints(t *testing.T) {
	var list []netip.AddrPort
	for i := range 1000 {
		list = append(list, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), 8080))
	}
	all := namesOf(list, false)
	for end, name := range namesOf(list[500:], false) {
		if all[end] != name || name&NameMask != NameBits {
			t.Errorf("%s is %#x among all, and %#x", end, all[end], name)
		}
	}
	seen := map[uint32]bool{}
	for _, name := range all {
		seen[name] = true
	}
	if len(seen) != len(list) {
		t.Errorf("%d endpoints have %d names", len(list), len(seen))
	}
}
