package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// remembering is a Service each port of which remembers its clients.
func remembering(service, ip string, ports, endpoints, round int) []KernelFrontend {
	list := wideService(ip, ports, endpoints, round)
	for i := range list {
		list[i].Affinity, list[i].Session = time.Hour, fmt.Sprint(service, ":", list[i].Port)
	}
	return list
}

// remembered counts how many ports of a Service remember clients, and how many clients all may.
func (p *paced) remembered(service string) (ports int) {
	for f := range p.expand(p.Of(service)) {
		if h := p.held[f]; h != nil && h.front.Sticky > 0 {
			ports++
		}
	}
	return ports
}

// clients is for how many there is room in all memories in force.
func (p *paced) clients() (n int) {
	seen := map[Memory]bool{}
	for _, h := range p.held {
		for _, pick := range []Pick{h.front, h.near} {
			if m, has := pick.Memory(); has && !seen[m] {
				seen[m] = true
				n += m.Clients()
			}
		}
	}
	return n
}

// A Service that comes and goes takes others of its namespace their memories, and they have them
// again: the names of all their endpoints are written for it, and that is no way around the pace.
func TestMemoriesThatComeAndGoAreNoWayAroundThePace(t *testing.T) {
	const steps, ports = 60, 131
	p, all := newPaced(), 0
	p.memories.room = 3 * ports * fewClients
	many := func(step int) []KernelFrontend {
		if step%2 == 0 {
			return nil
		}
		return remembering("evil/0", "10.96.1.0", ports, 1, 1) // of first turn
	}
	for i := 1; i <= 3; i++ {
		service := fmt.Sprint("evil/", i)
		p.step(map[string][]KernelFrontend{service: remembering(service, fmt.Sprint("10.96.1.", i), ports, 330, i)})
	}
	for range 60 {
		p.step(nil)
	}
	for i := range steps {
		small, other := wideService("10.96.0.2", 3, 5, i), wideService("10.96.0.3", 2, 400, i)
		p.step(map[string][]KernelFrontend{"evil/0": many(i), "evil/small": small, "good/some": other})
		all += p.written
		if !reflect.DeepEqual(p.Of("good/some"), other) || !reflect.DeepEqual(p.Of("evil/small"), small) {
			t.Fatalf("step %d: another waits, %v", i, p.pace.Waiting())
		}
		if n := p.clients(); n > p.memories.room {
			t.Fatalf("step %d: %d clients may be remembered", i, n)
		}
	}
	a := all / steps
	if t.Logf("%d elements a second", a); a > 23_000 {
		t.Errorf("%d elements a second", a)
	}
	p.step(map[string][]KernelFrontend{"evil/0": nil})
	for i := 0; len(p.Forgotten()) > 0; i++ { // each has its memory again
		if p.step(nil); i > 60 {
			t.Fatalf("nobody remembers the clients of %v", p.Forgotten())
		}
	}
	for i := 1; i <= 3; i++ {
		if n := p.remembered(fmt.Sprint("evil/", i)); n != ports {
			t.Errorf("%d ports of Service %d remember clients", n, i)
		}
	}
}

// Who waits for memories that another namespace took is followed at once in all that changes: those
// wait alone, and nobody says that he changes too much.
func TestMemoriesThatAreAwaitedHoldUpNoChange(t *testing.T) {
	p := newPaced()
	p.memories.room = 120 * fewClients
	good := func(n, round int) (string, []KernelFrontend) {
		service := fmt.Sprint("good/", n)
		list := remembering(service, fmt.Sprint("10.96.0.", n), 60, 300, 1)
		for i := range list {
			list[i].Tiers[0][0] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 250, 0, byte(round)}), 80)
		}
		return service, list
	}
	for n := 1; n <= 2; n++ {
		service, list := good(n, 0)
		p.step(map[string][]KernelFrontend{service: list})
	}
	for range 60 {
		p.step(nil)
	}
	evil := remembering("evil/x", "10.97.0.1", 60, 1, 1)
	for i := range 12 {
		change := map[string][]KernelFrontend{"evil/x": evil}
		if i%2 > 0 {
			change["evil/x"] = nil
		}
		service, list := good(1+i%2, 1+i)
		change[service] = list
		if p.step(change); !reflect.DeepEqual(p.Of(service), list) || len(p.pace.Waiting()) > 0 {
			t.Fatalf("step %d: one endpoint of %s waits, told are %v", i, service, p.pace.Waiting())
		}
	}
	p.step(map[string][]KernelFrontend{"evil/x": nil})
	for i := 0; p.remembered("good/1")+p.remembered("good/2") < 120; i++ {
		if p.step(nil); i > 60 {
			t.Fatalf("%d and %d ports remember clients", p.remembered("good/1"), p.remembered("good/2"))
		}
	}
}

// The law, over random histories: there are never more clients than there is room for, and in the end
// whoever is remembered by a fresh start is.
func TestMemoriesOfAHistory(t *testing.T) {
	forgotten := 0
	for seed := range testkit.Histories(4) {
		r, p, last := rand.New(rand.NewPCG(seed, 11)), newPaced(), map[string][]KernelFrontend{}
		p.memories.room = 40 * fewClients
		for range 30 {
			changed := map[string][]KernelFrontend{}
			for range r.IntN(3) {
				n := r.IntN(5)
				service := fmt.Sprintf("n%d/s%d", n%2, n)
				changed[service] = remembering(service, fmt.Sprintf("10.96.0.%d", n), r.IntN(25), 1+r.IntN(200), r.IntN(200))
				last[service] = changed[service]
			}
			p.step(changed)
			if n := p.clients(); n > p.memories.room {
				t.Fatalf("seed %d: %d clients may be remembered", seed, n)
			}
			forgotten += len(p.Forgotten())
		}
		p.comesTo(t, seed, last)
	}
	if forgotten == 0 {
		t.Error("there was room for all")
	}
}
