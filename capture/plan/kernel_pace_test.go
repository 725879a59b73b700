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
	for service, list := range p.pace.Take(changed, p.Of, p.now) {
		p.Set(service, list)
	}
	c := p.Settle()
	p.written = 0
	for gone, come := range c.Parts(1000) {
		p.written += gone.Len() + come.Len()
	}
	p.pace.Pay(c.Written(), p.now)
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
		for i := 0; len(p.pace.Waiting()) > 0; i++ {
			if p.step(nil); i > 60 {
				t.Fatalf("seed %d: %v wait for a minute", seed, p.pace.Waiting())
			}
		}
		anew := kernelPlanner()
		for service, list := range last {
			anew.Set(service, list)
		}
		anew.Settle()
		if got, want := unordered(t, p.KernelPlanner), unordered(t, anew); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: it is not what was last said", seed)
		}
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
