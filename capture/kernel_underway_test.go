package capture

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// What a packet meets that was led to a chain of three endpoints, or near ones, and looks its
// number up when there is the first one alone: it gets that, and is remembered with it. Where
// there is none it is refused. Nobody is counted as one that there was no room for.
func TestAnEndpointThatWentUnderWay(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	for name, n := range map[string]*testkit.Network{"a": l.a, "b": l.b, "far": l.far} {
		l.serve(t, name, n)
	}
	for _, ipv6 := range []bool{false, true} {
		for _, keep := range []time.Duration{0, time.Hour} {
			port := 30080 + int(keep/time.Hour)
			cluster, door, node := "10.96.0.1:%d", "0.0.0.0:%d", "192.0.2.1:%d"
			if ipv6 {
				cluster, door, node = "[fd00:96::1]:%d", "[::]:%d", "[2001:db8::1]:%d"
			}
			all := tiers(ipv6, "a", "b", "far") // also for who is to get near ones: it is about numbers
			l.put(t,
				plan.KernelFrontend{Frontend: tcp(fmt.Sprintf(cluster, port)), Tiers: all, Affinity: keep},
				plan.KernelFrontend{Frontend: tcp(fmt.Sprintf(door, port)), Tiers: all, Affinity: keep, Outside: &plan.KernelOutside{Local: true, LocalTiers: all}})
			l.dialLessTwo(t, fmt.Sprintf(cluster, port), plan.Pick{Sticky: uint32(keep / time.Second)})
			l.dialLessTwo(t, fmt.Sprintf(node, port), plan.Pick{Sticky: uint32(keep / time.Second), Near: true})
		}
	}
	l.kernel.full.looked = time.Time{}
	must(t, l.lookAtMemories(time.Now()))
	if list := l.own.all(); len(list) > 0 {
		t.Errorf("there was room for everybody, and found is %v", list)
	}
}

// dialLessTwo dials a frontend without the last two of its three numbers, and without any.
func (l *kernelLab) dialLessTwo(t *testing.T, to string, p plan.Pick) {
	t.Helper()
	l.lose(t, to, p, 1, 2)
	for range 20 { // one in three chooses the first by itself
		if p.Sticky > 0 {
			l.emptyMemories(t)
		}
		for range 2 {
			if got, _ := once(t, l.outside, "", to); got != "a" {
				t.Errorf("%s, %+v: %s answers", to, p, got)
			}
		}
		if n := l.remembered(t); p.Sticky > 0 && n != 1 {
			t.Errorf("%s, %+v: %d clients are remembered", to, p, n)
		}
	}
	if p.Sticky > 0 {
		l.emptyMemories(t)
	}
	l.lose(t, to, p, 0)
	if got, _ := once(t, l.outside, "", to); got != isRefused {
		t.Errorf("%s, %+v: %s answers, and there is nobody", to, p, got)
	}
}

// lose takes numbers of a frontend's endpoints away, and leaves the chain that picks among them.
func (l *kernelLab) lose(t *testing.T, to string, p plan.Pick, numbers ...uint32) {
	t.Helper()
	k, family := l.kernel.table, rules.FamilyOf(tcp(to).Addr)
	from := []rules.SetName{rules.Slots}
	if p.Sticky > 0 {
		from = append(from, rules.Names)
	}
	for _, set := range from {
		for _, n := range numbers {
			gone := nftables.SetElement{Key: numberedKey(tcp(to), rules.First(p)+n)}
			must(t, k.conn.SetDeleteElements(k.sets[set.For(family)], []nftables.SetElement{gone}))
		}
	}
	must(t, k.conn.Flush())
}

// remembered is how many clients are, in all memories.
func (l *kernelLab) remembered(t *testing.T) (n int) {
	t.Helper()
	found, err := l.kernel.table.found()
	must(t, err)
	for _, s := range found.Sets {
		if _, ok := rules.ParseMemory(s.Name); ok {
			list, err := nft.ReadMap(rules.KernelName, s.Name)
			must(t, err)
			n += len(list)
		}
	}
	return n
}
