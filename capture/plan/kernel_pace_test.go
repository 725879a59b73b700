package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// wideService has so many ports, each of so many endpoints, which a round tells from those of others.
func wideService(ip string, ports, endpoints, round int) (list []KernelFrontend) {
	var ends []netip.AddrPort
	for i := range endpoints {
		ends = append(ends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(round), byte(i >> 8), byte(i)}), 80))
	}
	for i := range ports {
		f := topology.Frontend{Addr: netip.MustParseAddr(ip), Port: uint16(1 + i), Protocol: topology.TCP}
		list = append(list, KernelFrontend{Frontend: f, Tiers: [][]netip.AddrPort{ends}})
	}
	return list
}

// paced is a node whose tenants change what they like, a second a step.
type paced struct {
	*KernelPlanner
	pace    *Pace
	now     time.Time
	written int // elements, by the last step
}

func newPaced() *paced {
	return &paced{kernelPlanner(), NewPace(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0}
}

func (p *paced) step(changed map[string][]KernelFrontend) {
	p.now = p.now.Add(time.Second)
	for service, list := range p.pace.Take(changed, p.KernelPlanner, p.now) {
		p.Set(service, list)
	}
	c := p.Settle()
	p.written = 0
	for gone, come := range c.Parts(1000) {
		p.written += gone.Len() + come.Len()
	}
	p.pace.Pay(c.Written(), p.KernelPlanner, p.now)
}

// comesTo wants that nobody waits for longer than a minute, and that then all is as a fresh start has
// what was last said.
func (p *paced) comesTo(t *testing.T, seed uint64, last map[string][]KernelFrontend) {
	t.Helper()
	for i := 0; len(p.pace.Waiting())+len(p.Due()) > 0; i++ {
		if p.step(nil); i > 60 {
			t.Fatalf("seed %d: %v wait for a minute, %v for a memory", seed, p.pace.Waiting(), p.Due())
		}
	}
	anew := kernelPlanner()
	anew.memories.room = p.memories.room
	for service, list := range last {
		anew.Set(service, list)
	}
	anew.Settle()
	if got, want := unordered(t, p.KernelPlanner), unordered(t, anew); !reflect.DeepEqual(got, want) {
		t.Fatalf("seed %d: it is not what a fresh start has of what was last said", seed)
	}
}

// Who rewrites a hundred thousand elements at each turn takes a tenth of the time; who else
// changes something, and what of the same namespace is small, is written at once.
func TestWhoRewritesThousandsWaits(t *testing.T) {
	p, all := newPaced(), 0
	const steps = 150
	for i := range steps {
		small, other := wideService("10.96.0.2", 3, 5, i%200), wideService("10.96.0.3", 2, 400, i%200)
		p.step(map[string][]KernelFrontend{"evil/wide": wideService("10.96.0.1", 30, 1000, i%200), "evil/small": small, "good/some": other})
		all += p.written
		for service, want := range map[string][]KernelFrontend{"evil/small": small, "good/some": other} {
			if !reflect.DeepEqual(p.Of(service), want) {
				t.Fatalf("step %d: %s waits", i, service)
			}
		}
	}
	others := steps * 2 * (2*400 + 3*5)
	took := time.Duration(all-others) * perElement / 10
	if t.Logf("%d elements of its own in %d s, %d of others", all-others, steps, others); took > steps*time.Second/8 || all == others {
		t.Errorf("it takes %s of %d s", took, steps)
	}
}

// While a Service waits what it no longer serves is not served, and who may not dial it any more
// does not; then it is what it is to be.
func TestWhatAWaitingServiceIsMeanwhile(t *testing.T) {
	p := newPaced()
	wide := func(ports, round int, sources ...string) []KernelFrontend {
		list := wideService("203.0.113.1", ports, 1000, round)
		for i := range list {
			list[i].Outside = &KernelOutside{}
			for _, s := range sources {
				list[i].Outside.Sources = append(list[i].Outside.Sources, netip.MustParsePrefix(s))
			}
		}
		return list
	}
	p.step(map[string][]KernelFrontend{"evil/wide": wide(50, 1)})
	p.step(map[string][]KernelFrontend{"evil/wide": wide(40, 2, "192.0.2.0/24")})
	if w := p.pace.Waiting(); len(w) != 1 {
		t.Fatalf("%v wait", w)
	}
	first, last := wide(50, 0)[39].Frontend, wide(50, 0)[49].Frontend
	if p.Has(last) || !p.Has(first) {
		t.Errorf("the port that is gone is served: %v; one that stays: %v", p.Has(last), p.Has(first))
	}
	if h := p.held[first]; h.guard == nil || h.slots[0].Addr().As4()[1] != 1 {
		t.Errorf("everybody may dial it, or it has other endpoints already: %+v", h.guard)
	}
	for p.now = p.now.Add(time.Minute); len(p.pace.Waiting()) > 0; {
		p.step(nil)
	}
	if h := p.held[first]; h.guard == nil || h.slots[0].Addr().As4()[1] != 2 {
		t.Error("it is not what it is to be")
	}
	p.step(map[string][]KernelFrontend{"evil/wide": wide(50, 3)})
	p.step(map[string][]KernelFrontend{"evil/wide": nil})
	if p.Has(first) || len(p.pace.Waiting()) > 0 {
		t.Error("a Service that is gone is served, or waits")
	}
}

// Who waits for the longest is next, whatever the others of his namespace do meanwhile, and is
// named first.
func TestWhoWaitsForTheLongestIsNext(t *testing.T) {
	p := newPaced()
	wide := func(round int) []KernelFrontend { return wideService("10.96.0.1", 20, 1000, round%200) }
	last := wideService("10.96.0.2", 20, 1000, 7)
	p.step(map[string][]KernelFrontend{"n/a": wide(0)})
	waited := 0
	for i := 1; !reflect.DeepEqual(p.Of("n/z"), last); i++ {
		changed := map[string][]KernelFrontend{"n/a": wide(i)}
		if i == 1 {
			changed = map[string][]KernelFrontend{"n/z": last}
		}
		if p.step(changed); len(p.pace.Waiting()) > 0 && p.pace.Waiting()[0] == "n/z" {
			waited++
		}
		if i > 10 {
			t.Fatalf("it waits after %d steps, of %v", i, p.pace.Waiting())
		}
	}
	if waited == 0 {
		t.Error("it did not wait")
	}
}

// Many Services of which none is large are no way around it: all of a namespace together write
// about what one large one may, each has its turn, and what is small is there soon.
func TestManyThatAreNotLargeWaitToo(t *testing.T) {
	p, steps, most := newPaced(), 60, 0
	middle := func(n int, remembers bool) []KernelFrontend {
		list := wideService(fmt.Sprint("10.96.1.", n), 1, 2700, n)
		if remembers {
			list[0].Affinity, list[0].Session = time.Hour, fmt.Sprint("n/", n)
		}
		return list
	}
	written, last, late := 0, map[int]int{}, 0
	for i := range steps {
		changed := map[string][]KernelFrontend{"n/small": wideService("10.96.0.2", 3, 5, i%200)}
		for n := range 24 {
			changed[fmt.Sprint("n/", n)] = middle(n, i%2 == 0)
		}
		p.step(changed)
		written, most = written+p.written, max(most, p.written)
		if late++; reflect.DeepEqual(p.Of("n/small"), changed["n/small"]) {
			late = 0
		}
		if late > 3 {
			t.Fatalf("step %d: what is small waits for %d s", i, late)
		}
		for n := range 24 {
			if p.Of(fmt.Sprint("n/", n)) != nil {
				last[n]++
			}
		}
	}
	rate := time.Duration(written) * perElement / time.Duration(steps)
	t.Logf("%d elements a second, %d at most; a pause of %s for each second", written/steps, most, rate)
	if rate > 5*time.Second/4 || most > 3*fewElements {
		t.Errorf("they write %d elements a second, %d at most", written/steps, most)
	}
	if len(last) < 24 {
		t.Errorf("%d of 24 are served", len(last))
	}
}

// What is written in a pause makes it no shorter.
func TestPausesAddUp(t *testing.T) {
	p, at := NewPace(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p.Pay(map[string]int{"n/big": 100_000}, kernelPlanner(), at)
	p.Pay(map[string]int{"n/other": 20_000}, kernelPlanner(), at.Add(time.Second))
	if room := *p.rooms(at.Add(11 * time.Second))(lane{"n", large}); room != -10_000 {
		t.Errorf("after 11 of 12 s there is room for %d elements", room)
	}
}

// A port that comes while its Service waits is served at once: nothing else would.
func TestANewPortOfWhoWaits(t *testing.T) {
	p := newPaced()
	p.step(map[string][]KernelFrontend{"n/wide": wideService("10.96.0.1", 20, 1000, 1)})
	p.step(map[string][]KernelFrontend{"n/wide": wideService("10.96.0.1", 22, 1000, 2)})
	if len(p.pace.Waiting()) != 1 {
		t.Fatal("it does not wait")
	}
	for _, f := range wideService("10.96.0.1", 22, 0, 0) {
		if !p.Has(f.Frontend) {
			t.Errorf("port %d is not served", f.Port)
		}
	}
	p.step(map[string][]KernelFrontend{"n/wide": nil})
	for range 20 { // and is no way around it
		p.step(map[string][]KernelFrontend{"n/wide": wideService("10.96.0.1", 16, 1000, 3)})
		p.step(map[string][]KernelFrontend{"n/wide": nil})
		if p.written > 2*fewElements {
			t.Fatalf("%d elements are written", p.written)
		}
	}
}

// A node port counts at each of the node's addresses.
func TestANodePortCountsAtEachAddress(t *testing.T) {
	p := NewKernelPlanner(Config{Kernel: &Kernel{}}, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")})
	at := func(ip string) []KernelFrontend { return wideService(ip, 2, 100, 1) }
	if once, thrice := p.differing("n/s", at("10.96.0.1")), p.differing("n/s", at("0.0.0.0")); thrice != 3*once {
		t.Errorf("a node port counts %d, a port of a ClusterIP %d", thrice, once)
	}
}

// The law, over random histories: when nobody changes anything any more all is soon as it was last said.
func TestNobodyWaitsForEver(t *testing.T) {
	waited := 0
	for seed := range testkit.Histories(5) {
		r, p, last := rand.New(rand.NewPCG(seed, 7)), newPaced(), map[string][]KernelFrontend{}
		for range 15 {
			changed := map[string][]KernelFrontend{}
			for range r.IntN(3) {
				n := r.IntN(4)
				service := fmt.Sprintf("n%d/s%d", n%2, n)
				changed[service] = wideService(fmt.Sprintf("10.96.0.%d", n), r.IntN(20), 1+r.IntN(1200), r.IntN(200))
				last[service] = changed[service]
			}
			if p.step(changed); len(p.pace.Waiting()) > 0 {
				waited++
			}
		}
		p.comesTo(t, seed, last)
	}
	if waited == 0 {
		t.Error("nobody ever waited")
	}
}

// Parts are small, and those of small frontends come first.
func TestPartsOfAChange(t *testing.T) {
	p := kernelPlanner()
	p.Set("a/wide", wideService("10.96.0.1", 50, 300, 1))
	p.Set("b/small", wideService("10.96.0.2", 3, 2, 1))
	sizes, small := []int{}, 0
	for gone, come := range p.Settle().Parts(1000) {
		if sizes = append(sizes, gone.Len()+come.Len()); len(sizes) == 1 {
			for _, f := range come.Fronts {
				if f.Frontend.Addr == netip.MustParseAddr("10.96.0.2") {
					small++
				}
			}
		}
	}
	if len(sizes) < 15 || small != 3 {
		t.Errorf("parts of %v elements; in the first are %d of the small Service's frontends", sizes, small)
	}
	for _, n := range sizes {
		if n > 1000 {
			t.Errorf("a part has %d elements", n)
		}
	}
}
