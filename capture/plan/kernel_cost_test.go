package plan

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// tiered has so many ports, each of the same tiers.
func tiered(from, ports int, tiers ...[]netip.AddrPort) (list []KernelFrontend) {
	for i := range ports {
		f := topology.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: uint16(from + i), Protocol: topology.TCP}
		list = append(list, KernelFrontend{Frontend: f, Tiers: tiers})
	}
	return list
}

// wideTier has so many endpoints, which a round tells from those of others.
func wideTier(endpoints, round int) []netip.AddrPort {
	return wideService("10.96.0.1", 1, endpoints, round)[0].Tiers[0]
}

// Who rewrites thousands finds no way around the pace by what is not written, as are all tiers but
// one, or by what goes at once. What is small of the same namespace is soon there, and
// what is another's at once.
func TestNoWayAroundThePace(t *testing.T) {
	const steps = 30
	one, none := wideTier(1, 220), []netip.AddrPort(nil)
	for name, next := range map[string]func(i int) []KernelFrontend{
		"a near pod that comes and goes": func(i int) []KernelFrontend {
			return tiered(1, 30, [][]netip.AddrPort{one, none}[i%2], wideTier(999, 1))
		},
		"keys in another order": func(i int) []KernelFrontend {
			return tiered(1, 30, wideTier(500, 1+i%2), wideTier(500, 2-i%2))
		},
		"far ones that change, too": func(i int) []KernelFrontend {
			return tiered(1, 16, wideTier(500, i), wideTier(600, 100+i))
		},
		"ports that come and go while others wait": func(i int) []KernelFrontend {
			return append(tiered(1, 20, wideTier(1000, i)), tiered(100+100*(i%2), 16, wideTier(999, 1))...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, all, late, latest := newPaced(), 0, 0, 0
			for i := range steps {
				small, other := wideService("10.96.0.2", 3, 5, i), wideService("10.96.0.3", 2, 400, i)
				p.step(map[string][]KernelFrontend{"evil/wide": next(i), "evil/small": small, "good/some": other})
				if i > 0 {
					all += p.written
				}
				if !reflect.DeepEqual(p.Of("good/some"), other) {
					t.Fatalf("step %d: another namespace waits", i)
				}
				if late++; reflect.DeepEqual(p.Of("evil/small"), small) {
					late = 0
				}
				latest = max(latest, late)
			}
			a := all / (steps - 1)
			if t.Logf("%d elements a second; what is small waits for %d s", a, latest); latest > 3 {
				t.Errorf("what is small waits for %d s", latest)
			}
			if most := 23_000; a > most { // of two lanes, and of the others
				t.Errorf("%d elements a second, more than %d", a, most)
			}
		})
	}
}

// What nobody is led to costs nothing, and waits for nobody; nor does a little of what is wide.
func TestALittleOfWhatIsWideDoesNotWait(t *testing.T) {
	p := newPaced()
	p.step(map[string][]KernelFrontend{"n/wide": tiered(1, 131, wideTier(1000, 1), wideTier(1000, 2))})
	for what, next := range map[string][]KernelFrontend{
		"the far tier":               tiered(1, 131, wideTier(1000, 1), wideTier(1000, 3)),
		"one endpoint of a thousand": tiered(1, 131, wideTier(999, 1), wideTier(1000, 3)),
	} {
		if p.step(map[string][]KernelFrontend{"n/wide": next}); !reflect.DeepEqual(p.Of("n/wide"), next) || p.written > 131*5 {
			t.Errorf("%s: %v wait, %d elements are written", what, p.pace.Waiting(), p.written)
		}
	}
}

// The law, over random histories: what a Service costs is what is written of it, or somewhat more.
func TestWhatCostsIsWhatIsWritten(t *testing.T) {
	costs, all := 0, 0
	for seed := range testkit.Histories(20) {
		w, p := &world{rand.New(rand.NewPCG(seed, 9)), map[string][]KernelFrontend{}}, kernelPlanner()
		for step := range 60 {
			service, list := w.step()
			for i := range list {
				list[i].Port += 100 * uint16(service[1]-'0') // nobody else's
			}
			cost := p.differing(service, list)
			p.Set(service, list)
			c := p.Settle()
			c.all()
			written := c.Written()[service]
			if cost < written || written == 0 && cost > 0 || cost > 2*written {
				t.Fatalf("seed %d step %d: it costs %d, and %d are written", seed, step, cost, written)
			}
			costs, all = costs+cost, all+written
		}
	}
	if t.Logf("%d are written, which cost %d", all, costs); all == 0 || costs > all*11/10 {
		t.Error("that is too much")
	}
}
