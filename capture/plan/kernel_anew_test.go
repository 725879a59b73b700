package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// The stages are the plan, each element once. With its front a frontend has all that it needs
// to be served: who may dial it, the chain, and the endpoint to which others give way; where
// clients are remembered, all of them.
func TestStagesAreThePlan(t *testing.T) {
	for seed := range uint64(200) {
		p, w := kernelPlanner(), &world{Rand: rand.New(rand.NewPCG(seed, 1)), services: map[string][]KernelFrontend{}}
		for range 8 {
			p.Set(w.step())
		}
		p.Settle()
		var got []string
		for _, s := range p.Anew() {
			for _, pick := range s.Picks {
				got = append(got, fmt.Sprint(pick))
			}
			for _, l := range s.Lists {
				got = append(got, fmt.Sprint(l))
			}
			for part := range s.Parts(1 + w.IntN(30)) {
				got = append(got, told(part)...)
				for _, f := range part.Fronts {
					if lacks := needs(p, f.Frontend, got); len(lacks) > 0 {
						t.Fatalf("seed %d: %v is served without %v", seed, f, lacks)
					}
				}
			}
		}
		e, picks := p.Plan()
		want := told(&e)
		for _, pick := range picks {
			want = append(want, fmt.Sprint(pick))
		}
		for _, l := range p.Lists() {
			want = append(want, fmt.Sprint(l))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: the stages have\n%v\nthe plan\n%v", seed, got, want)
		}
	}
}

// With the first stage everything is in force that remembers no clients, by one endpoint each.
func TestTheFirstStageServes(t *testing.T) {
	p := kernelPlanner()
	for i := range 20 {
		f := front(fmt.Sprintf("10.96.0.%d:80", i), topology.TCP)
		p.Set(fmt.Sprint(i), []KernelFrontend{{Frontend: f, Tiers: [][]netip.AddrPort{tier("10.244.0.1:80", "10.244.0.2:80", "10.244.0.3:80")}}})
	}
	p.Settle()
	fronts, slots := 0, 0
	for part := range p.Anew()[0].Parts(8) {
		fronts, slots = fronts+len(part.Fronts), slots+len(part.Slots)
	}
	if fronts != 20 || slots != 20 {
		t.Errorf("%d frontends and %d endpoints, want 20 and 20", fronts, slots)
	}
}

// told are elements, one by one.
func told(e *KernelElements) (list []string) {
	list = textsOf(list, e.Slots)
	list = textsOf(list, e.Names)
	list = textsOf(list, e.Ends)
	list = textsOf(list, e.Selves)
	list = textsOf(list, e.Limits)
	list = textsOf(list, e.Loops)
	list = textsOf(list, e.Policies)
	list = textsOf(list, e.Nears)
	return textsOf(list, e.Fronts)
}

func textsOf[E any](list []string, elements []E) []string {
	for _, e := range elements {
		list = append(list, fmt.Sprintf("%T %v", e, e))
	}
	return list
}

// needs is what a frontend that is served needs and got has not.
func needs(p *KernelPlanner, f topology.Frontend, got []string) (lacks []string) {
	h := p.held[f]
	all := elementsOf(f, h)
	if !h.remembers() {
		all.Slots = slices.DeleteFunc(all.Slots, func(s Slot) bool { return s.Number != 0 && s.Number != NearSlot })
	}
	want := told(&all)
	for _, pick := range []Pick{h.front, h.near} {
		if pick.Among > 0 {
			want = append(want, fmt.Sprint(pick))
		}
	}
	if g := h.guard; g != nil {
		want = append(want, fmt.Sprint(Ranges{g.List, g.Of}))
	}
	return slices.DeleteFunc(want, func(s string) bool { return slices.Contains(got, s) })
}
