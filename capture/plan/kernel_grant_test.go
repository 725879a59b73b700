package plan

import (
	"fmt"
	"math/rand/v2"
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

// Who waits for a memory alone is not said to change too much, and loses nothing that changes meanwhile.
func TestAMemoryThatIsAwaitedIsNoChange(t *testing.T) {
	p := newPaced()
	p.memories.room = 20 * fewClients
	wide := func(round int) map[string][]KernelFrontend {
		return map[string][]KernelFrontend{"n/wide": remembering("n/wide", "10.96.0.1", 20, 1000, round)}
	}
	p.step(wide(1))
	p.step(map[string][]KernelFrontend{"n/first": remembering("n/first", "10.96.0.2", 1, 1, 1)})
	if n := p.remembered("n/wide"); n != 19 || len(p.Forgotten()) != 1 {
		t.Fatalf("%d ports remember clients", n)
	}
	p.step(map[string][]KernelFrontend{"n/first": remembering("n/first", "10.96.0.2", 20, 1, 1)})
	p.step(map[string][]KernelFrontend{"n/first": nil})
	if p.step(nil); p.remembered("n/wide") != 0 || len(p.pace.Waiting()) > 0 {
		t.Fatalf("%d ports remember clients at once, told are %v", p.remembered("n/wide"), p.pace.Waiting())
	}
	p.step(wide(2))
	if len(p.pace.Waiting()) != 1 {
		t.Fatal("its change does not wait")
	}
	for i := 0; p.remembered("n/wide") < 20 || p.held[wideService("10.96.0.1", 1, 0, 0)[0].Frontend].slots[0].Addr().As4()[1] != 2; i++ {
		if p.step(nil); i > 30 {
			t.Fatalf("%d ports remember clients", p.remembered("n/wide"))
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
			t.Fatalf("seed %d: it is not what a fresh start has", seed)
		}
	}
	if forgotten == 0 {
		t.Error("there was room for all")
	}
}
