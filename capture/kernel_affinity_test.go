package capture

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// A client that another address of the Service led elsewhere stays on this node where
// internalTrafficPolicy wants it: here the node port has brought it to far.
func TestKernelAffinityStaysOnTheNode(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	door := plan.KernelFrontend{Frontend: tcp("0.0.0.0:30080"), Tiers: tiers(false, "far"), Affinity: time.Hour, Outside: &plan.KernelOutside{}}
	l.put(t, door)
	if name, _ := once(t, l.a, "", "192.0.2.1:30080"); name != "far" {
		t.Fatalf("the node port is answered by %s", name)
	}
	door.Tiers = tiers(false, "b", "far")
	l.put(t, door, plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, "b"), Here: true, Affinity: time.Hour})
	for range 3 {
		if name, _ := once(t, l.a, "", "10.96.0.1:80"); name != "b" {
			t.Errorf("internalTrafficPolicy Local: %s answers", name)
		}
		if name, _ := once(t, l.a, "", "192.0.2.1:30080"); name != "far" {
			t.Errorf("by the node port, which it kept, %s answers", name)
		}
	}
}

// Clients keep their endpoints while the agent is started anew, from an older state and
// from none, and while endpoints and Services of others come and go: of more Services than a
// transaction has.
func TestKernelAffinitySurvives(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	all := map[string][]plan.KernelFrontend{}
	for i := range 2*picksPerTransaction + 1 {
		service := fmt.Sprintf("default/s%d", i)
		all[service] = sticky(service, time.Hour, []plan.KernelFrontend{
			{Frontend: tcp(fmt.Sprintf("10.96.1.%d:80", i)), Tiers: tiers(false, "b", "far")},
			{Frontend: tcp(fmt.Sprintf("0.0.0.0:%d", 30000+i)), Tiers: tiers(false, "b", "far"), Outside: &plan.KernelOutside{}},
		})
	}
	must(t, l.setKernel(all, false))
	kept := map[string]string{}
	for i := range 20 {
		to := fmt.Sprintf("10.96.1.%d:80", 3*i)
		kept[to], _ = once(t, l.a, "", to)
		kept[fmt.Sprintf("192.0.2.1:%d", 30000+3*i)] = kept[to] // the same Service
	}
	expect := func(when string) {
		t.Helper()
		for to, name := range kept {
			if got, _ := once(t, l.a, "", to); got != name {
				t.Errorf("%s: %s is answered by %s, it was by %s", when, to, got, name)
			}
		}
	}
	expect("before")
	l.Capture = starting(t, kernelConfig(), l.host)
	expect("started anew")
	must(t, l.setKernel(all, true))
	expect("the last good state")
	must(t, l.setKernel(all, false))
	expect("the first whole view")
	other := sticky("default/other", time.Hour, []plan.KernelFrontend{{Frontend: tcp("10.96.2.1:80"), Tiers: tiers(false, "a", "b")}})
	for _, list := range [][]plan.KernelFrontend{other, nil} {
		must(t, l.setKernel(map[string][]plan.KernelFrontend{"default/other": list}, false))
		expect("another Service")
	}
	three := map[string][]plan.KernelFrontend{}
	for service, list := range all {
		for _, f := range list {
			f.Tiers = tiers(false, "a", "b", "far")
			three[service] = append(three[service], f)
		}
	}
	must(t, l.setKernel(three, false))
	expect("a third endpoint")
	must(t, l.setKernel(all, false))
	expect("and without")
	if repaired, err := l.Repair(); repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	none := map[string][]plan.KernelFrontend{}
	for service := range all {
		none[service] = nil
	}
	must(t, l.setKernel(none, false))
	found, err := l.kernel.table.found()
	must(t, err)
	for _, s := range found.Sets {
		if _, ok := rules.ParseMemory(s.Name); ok {
			t.Errorf("%s is left", s.Name)
		}
	}
}

// What carries the name of an endpoint through the rules is the packet's priority, which
// no packet has any more when it leaves.
func TestNamesLeaveNoNode(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "far", l.far)
	l.put(t,
		plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, "far"), Affinity: time.Hour},
		plan.KernelFrontend{Frontend: tcp("[fd00:96::1]:80"), Tiers: tiers(true, "far"), Affinity: time.Hour})
	conn := nft.New()
	table := conn.AddTable(&nftables.Table{Name: "count", Family: nftables.TableFamilyINet})
	chains := map[string]*nftables.Chain{}
	for name, at := range map[string]struct {
		hook     *nftables.ChainHook
		priority nftables.ChainPriority
	}{
		"picked": {nftables.ChainHookPrerouting, -50}, "sent": {nftables.ChainHookOutput, -50}, "left": {nftables.ChainHookPostrouting, 300},
	} {
		chains[name] = conn.AddChain(&nftables.Chain{Table: table, Name: name, Type: nftables.ChainTypeFilter, Hooknum: at.hook, Priority: &at.priority})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chains[name], Exprs: nft.Expressions(rules.Rule{rules.Named{}, rules.Counter{}})})
	}
	must(t, conn.Flush())
	for _, to := range []string{"10.96.0.1:80", "[fd00:96::1]:80"} {
		for name, from := range map[string]*testkit.Network{"a pod": l.a, "the host": l.node} {
			for range 2 {
				if got, _ := once(t, from, "", to); got != "far" {
					t.Errorf("%s to %s: %s answers", name, to, got)
				}
			}
		}
	}
	for name, chain := range chains {
		list, err := conn.GetRules(table, chain)
		must(t, err)
		n := list[0].Exprs[len(list[0].Exprs)-1].(*expr.Counter).Packets
		if (n > 0) != (name != "left") {
			t.Errorf("%s: %d packets carry a name", name, n)
		}
	}
}

// A client keeps its endpoint, by whatever frontend of the Service it comes, while
// that is one; and for as long as was asked for.
func TestKernelAffinity(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	web := func(keep time.Duration, names ...string) []plan.KernelFrontend {
		return []plan.KernelFrontend{
			{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, names...), Affinity: keep},
			{Frontend: tcp("0.0.0.0:30080"), Tiers: tiers(false, names...), Affinity: keep, Outside: &plan.KernelOutside{Local: true, LocalTiers: tiers(false, "b")}},
		}
	}
	l.put(t, web(time.Hour, "b", "far")...)
	first, _ := once(t, l.a, "", "10.96.0.1:80")
	for i := range 20 {
		to := []string{"10.96.0.1:80", "192.0.2.1:30080"}[i%2]
		if name, _ := once(t, l.a, "", to); name != first {
			t.Errorf("connection %d, to %s, is answered by %s, the first was by %s", i, to, name, first)
		}
	}
	if name, _ := once(t, l.outside, "", "192.0.2.1:30080"); name != "b" {
		t.Errorf("from elsewhere %s answers, which is not of this node", name)
	}
	other := map[string]string{"b": "far", "far": "b"}[first]
	l.put(t, web(time.Hour, other)...)
	if name, _ := once(t, l.a, "", "10.96.0.1:80"); name != other {
		t.Errorf("%s answers, which is no endpoint any more", name)
	}
	l.put(t, web(time.Hour, "b", "far")...)
	for range 10 {
		if name, _ := once(t, l.a, "", "10.96.0.1:80"); name != other {
			t.Errorf("%s answers, the client had moved to %s", name, other)
		}
	}
	// Who was quiet for long enough is nobody's: the kernel forgets it.
	l.emptyMemories(t)
	l.put(t, web(time.Second, "b", "far")...)
	once(t, l.a, "", "10.96.0.1:80")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		n := 0
		for _, name := range l.memories(t) {
			list, err := nft.ReadMap("gridmesh_kernel", name)
			must(t, err)
			n += len(list)
		}
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s it remembers %d clients for 1 s", n)
		}
	}
	seen := map[string]bool{}
	for range 40 {
		name, _ := once(t, l.a, "", "10.96.0.1:80")
		seen[name] = true
		l.emptyMemories(t)
	}
	if !seen["b"] || !seen["far"] {
		t.Errorf("clients that are forgotten get %v alone", seen)
	}
}

// emptyMemories does what time does.
func (l *kernelLab) emptyMemories(t *testing.T) {
	t.Helper()
	k := l.kernel.table
	for _, name := range l.memories(t) {
		k.conn.FlushSet(&nftables.Set{Table: k.nft, Name: name})
	}
	must(t, k.conn.Flush())
}

// memories are the names of the maps in which clients are remembered.
func (l *kernelLab) memories(t *testing.T) (names []string) {
	t.Helper()
	found, err := l.kernel.table.found()
	must(t, err)
	for _, s := range found.Sets {
		if _, ok := rules.ParseMemory(s.Name); ok {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		t.Error("nobody is remembered")
	}
	return names
}
