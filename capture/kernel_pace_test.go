package capture

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// A Service that changes tens of thousands of elements again and again has its next change wait,
// and nobody else's waits behind it; when its turn comes it is what it is to be.
func TestWhoChangesThousandsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	c := started(t, kernelConfig())
	ends := func(round byte) (list []netip.AddrPort) {
		for i := range 1000 {
			list = append(list, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, round, byte(i >> 8), byte(i)}), 80))
		}
		return list
	}
	wide := func(round byte) (list []plan.KernelFrontend) {
		tiers := [][]netip.AddrPort{ends(round), ends(5 - round)} // the second round and the third have the same, turned about
		for i := range 20 {
			f := topology.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: uint16(1 + i), Protocol: topology.TCP}
			list = append(list, plan.KernelFrontend{Frontend: f, Tiers: tiers})
		}
		return list
	}
	small := func(end string) []plan.KernelFrontend {
		return []plan.KernelFrontend{{Frontend: tcp("10.96.0.2:80"), Tiers: [][]netip.AddrPort{{netip.MustParseAddrPort(end)}}}}
	}
	write := func(w, s []plan.KernelFrontend) time.Duration {
		begin := time.Now()
		must(t, c.setKernel(map[string][]plan.KernelFrontend{"evil/wide": w, "good/web": s}, false))
		return time.Since(begin)
	}
	leadsTo := func() (rounds map[byte]int, web string) {
		all, err := readElements()
		must(t, err)
		rounds = map[byte]int{}
		for key, value := range all[rules.Slots.For(rules.IPv4)] {
			if strings.HasPrefix(key, string(frontendKey(tcp("10.96.0.2:80")))) {
				web = fmt.Sprint(netip.AddrFrom4([4]byte([]byte(value[:4]))))
			} else {
				rounds[value[1]]++
			}
		}
		return rounds, web
	}
	_ = write(wide(1), small("10.244.0.1:80")) // compared as a whole: nobody pays for the first
	first := write(wide(2), small("10.244.0.2:80"))
	var beside []time.Duration
	for i := range 3 { // the best of three: this machine may have others to serve
		c.kernel.pace.Pay(map[string]int{"evil/wide": 100_000}, c.kernel.planner, time.Now()) // 10 s more each time: however slow it is
		_ = write(wide(2), small(fmt.Sprintf("10.244.0.%d:80", 2+i)))                         // as both are: nothing waits
		beside = append(beside, write(wide(3), small(fmt.Sprintf("10.244.0.%d:80", 3+i))))
	}
	if _, err := c.Repair(); err != nil || !told(c, KernelPace, "evil/wide") {
		t.Errorf("nobody is told that it waits: %v", err)
	}
	t.Logf("20,000 endpoints and one: %s; beside those that wait: %s", first, beside)
	rounds, web := leadsTo()
	if rounds[2] != 20000 || len(rounds) != 1 || web != "10.244.0.5" {
		t.Errorf("the wide Service leads to %v (by round), and the other to %s", rounds, web)
	}
	if second := slices.Min(beside); second > first/3 {
		t.Errorf("beside it one endpoint takes %s; with it %s", second, first)
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if _, err := c.Repair(); err != nil {
			t.Fatal(err)
		}
		if rounds, _ := leadsTo(); rounds[3] == 20000 && len(rounds) == 1 {
			t.Logf("its turn came after %s", time.Since(begin))
			break
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("its turn never came")
		}
	}
	if told(c, KernelPace, "") {
		t.Error("it is said that it waits still")
	}
}

func told(c *Capture, kind FindingKind, about string) bool {
	for _, f := range c.own.all() {
		if f.Kind == kind && strings.Contains(f.Text, about) {
			return true
		}
	}
	return false
}
