package capture

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// The last good state may be older than what is in force: it changes no frontend that
// is there, adds those that are not, and repairs what it added.
func TestLastGoodStateChangesNoFrontend(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	host := testHost(t)
	web := func(affinity time.Duration, names ...string) plan.KernelFrontend {
		return plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, names...), Affinity: affinity, Session: "web"}
	}
	six := func(names ...string) plan.KernelFrontend {
		return plan.KernelFrontend{Frontend: tcp("[fd00:96::1]:80"), Tiers: tiers(true, names...)}
	}
	port := func(local bool, names ...string) plan.KernelFrontend {
		return plan.KernelFrontend{Frontend: tcp("0.0.0.0:30080"), Tiers: tiers(false, names...), Outside: &plan.KernelOutside{Local: local, LocalTiers: tiers(false, names...)}}
	}
	added := plan.KernelFrontend{Frontend: tcp("10.96.0.9:80"), Tiers: tiers(false, "a", "b")}
	is := func(list ...plan.KernelFrontend) map[string][]plan.KernelFrontend {
		return map[string][]plan.KernelFrontend{"web": list}
	}
	newer := is(web(time.Hour, "b", "far"), six("b"), port(false, "b"))
	older := is(web(time.Hour, "a", "b", "far"), six("a", "far"), port(true, "a"), added)
	must(t, starting(t, kernelConfig(), host).setKernel(newer, false))
	before := kernelState(t)
	c := starting(t, kernelConfig(), host)
	stays := func(when string) {
		t.Helper()
		after := kernelState(t)
		for key, was := range before {
			if now := after[key]; now != was {
				t.Errorf("%s: %q was %q and is %q", when, key, was, now)
			}
		}
		for key := range after {
			set, _, element := strings.Cut(key, " ")
			_, there := before[key]
			if ours := strings.HasSuffix(set, "4") && strings.Contains(key, "0a600009"); element && !there && !ours && !strings.HasPrefix(set, "loops") {
				t.Errorf("%s: %q came", when, key)
			}
		}
		if !maps.Equal(after, kernelState(t)) || len(after) == len(before) {
			t.Errorf("%s: the frontend that was not there is not added", when)
		}
	}
	must(t, c.setKernel(older, true))
	stays("the last good state")
	if repaired, err := c.Repair(); repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	all := kernelState(t)
	k := newKernelTable(kernelConfig())
	must(t, k.write(steps(elementsOf(&plan.KernelElements{Slots: []plan.Slot{{Frontend: added.Frontend, Endpoint: added.Tiers[1][0]}}}), nil), kernelChains{}, kernelChains{}))
	if repaired, err := c.Repair(); !repaired || err != nil {
		t.Errorf("what it added was harmed: repaired %v, %v", repaired, err)
	}
	if !maps.Equal(kernelState(t), all) {
		t.Error("what it added is not as it was")
	}
	must(t, c.setKernel(older, false))
	want := kernelState(t)
	testkit.NewNetwork(t)
	must(t, starting(t, kernelConfig(), testHost(t)).setKernel(older, false))
	if len(want) != len(kernelState(t)) {
		t.Error("a whole view is not all that there is")
	}
}

// Who fills an empty table may end when frontends have one endpoint each. To the next one,
// which knows a last good state alone, that is no frontend to be left as it is; one
// whose endpoints are others is.
func TestAnUnfilledTableIsFilled(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	host := testHost(t)
	all := map[string][]plan.KernelFrontend{"port": {{
		Frontend: tcp("0.0.0.0:30080"), Tiers: tiers(false, "a", "b", "far"),
		Outside: &plan.KernelOutside{Local: true, LocalTiers: tiers(false, "a", "b")},
	}}}
	for i := range 5 {
		all[fmt.Sprint(i)] = benchService(i, 4, 0)
	}
	begin := func() *Capture {
		c := starting(t, kernelConfig(), host)
		for name, list := range all {
			c.kernel.planner.Set(name, list)
		}
		c.kernel.planner.Settle()
		return c
	}
	first := begin()
	s := first.kernel.planner.Anew()[0]
	must(t, first.kernel.table.write(stepsAnew(s.Parts(partOf)), kernelChains{s.Picks, s.Lists}, kernelChains{}))
	torn := kernelState(t)
	must(t, starting(t, kernelConfig(), host).setKernel(all, true))
	got := kernelState(t)
	testkit.NewNetwork(t)
	must(t, starting(t, kernelConfig(), testHost(t)).setKernel(all, false))
	if want := kernelState(t); !maps.Equal(got, want) || maps.Equal(torn, want) {
		t.Errorf("%d elements, %d of which were there, want %d", len(got), len(torn), len(want))
	}
}

// As many endpoints as a pick chooses among are not those that it chooses.
func TestATornFrontendIsFilled(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	host := testHost(t)
	all := map[string][]plan.KernelFrontend{"web": benchService(1, 3, 0)}
	first := starting(t, kernelConfig(), host)
	must(t, first.setKernel(all, false))
	want := kernelState(t)
	have, err := readElements()
	must(t, err)
	gone, added, slots := kernelElements{}, kernelElements{}, rules.Slots.For(rules.IPv4)
	for key, value := range have[slots] {
		if slotNumber(key) == 2 {
			gone.put(slots, key, value)
			added.put(slots, key[:len(key)-4]+string(binary.NativeEndian.AppendUint32(nil, 7)), value)
		}
	}
	must(t, first.kernel.table.write(steps(gone, added), kernelChains{}, kernelChains{}))
	if maps.Equal(kernelState(t), want) {
		t.Fatal("nothing is torn")
	}
	must(t, starting(t, kernelConfig(), host).setKernel(all, true))
	got := kernelState(t)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%q is %q, want %q", key, got[key], value)
		}
	}
}

// A restart takes nothing out of force, node ports neither, where nobody knows the
// ranges of pods.
func TestRestartKeepsNodePorts(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	cfg.PodCIDRs = nil
	testkit.NewNetwork(t)
	host := testHost(t)
	all := map[string][]plan.KernelFrontend{"web": example()}
	must(t, starting(t, cfg, host).setKernel(all, false))
	want := kernelState(t)
	c := starting(t, cfg, host)
	must(t, c.setKernel(all, false))
	got := kernelState(t)
	for key := range want {
		if _, there := got[key]; !there {
			t.Errorf("gone with the first whole view: %q", key)
		}
	}
}

// Where the kernel path does not follow, what neither path serves any more is not
// Envoy's: it has nobody for it.
func TestGoneWithoutTheKernelPath(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	see := func(o *cluster, path topology.Datapath) *topology.View {
		return topology.See(o.Build(), "n0", topology.Options{Datapath: path})
	}
	first := newCluster().serve("gone", "10.96.0.1", "10.244.0.6").serve("moves", "10.96.0.2", "10.244.0.6")
	apply(t, c, see(first, topology.DatapathEnvoy), false)
	c.table.conn.DelTable(c.kernel.table.nft)
	must(t, c.table.conn.Flush())
	theirs := ownKernelTable(t)
	defer theirs.Close()
	if err := c.Retract(see(newCluster().serve("moves", "10.96.0.2", "10.244.0.6"), topology.DatapathKernel), false); err == nil {
		t.Fatal("another's table was written")
	}
	if got := elements(t)["serve4"]; len(got) != 1 || !strings.HasPrefix(got[0], "0a600002") {
		t.Errorf("Envoy has %v", got)
	}
}

// Where the kernel path does not follow, what Extend hands to Envoy is told all the same: all of it at the first whole view,
// what comes after that, and nothing of the last good state.
func TestHandedWithoutTheKernelPath(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	c.table.conn.DelTable(c.kernel.table.nft)
	must(t, c.table.conn.Flush())
	theirs := ownKernelTable(t)
	defer theirs.Close()
	o := newCluster()
	for _, step := range []struct {
		ip          string
		provisional bool
		want        []string
	}{
		{"10.96.0.1", true, nil},
		{"10.96.0.2", false, []string{"10.96.0.1:80/tcp", "10.96.0.2:80/tcp"}},
		{"10.96.0.3", false, []string{"10.96.0.3:80/tcp"}},
	} {
		o.serve(step.ip, step.ip, "10.244.0.6")
		if err := c.Retract(topology.See(o.Build(), "n0", topology.Options{Datapath: topology.DatapathEnvoy}), step.provisional); err == nil {
			t.Fatal("another's table was written")
		}
		var got []string
		for _, f := range c.Handed() {
			got = append(got, f.String())
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: handed %v, want %v", step.ip, got, step.want)
		}
		must(t, c.Extend())
		if again := c.Handed(); len(again) > 0 {
			t.Errorf("%s: %v is handed twice", step.ip, again)
		}
	}
	if got := elements(t)["serve4"]; len(got) != 3 {
		t.Errorf("Envoy has %v", got)
	}
}

// What follows the node's own address is no repair: nobody else is to blame.
func TestMovedIsNotRepaired(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	cfg.Kernel = &plan.Kernel{}
	c := starting(t, cfg, l.host)
	must(t, c.setKernel(map[string][]plan.KernelFrontend{"web": example()}, false))
	link, err := netlink.LinkByName("up0")
	must(t, err)
	must(t, netlink.AddrAdd(link, parse(t, "192.0.2.77/32")))
	must(t, netlink.AddrDel(link, parse(t, "192.0.2.1/24")))
	before := kernelState(t)
	repaired, err := c.repairKernel()
	if repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	if maps.Equal(before, kernelState(t)) {
		t.Error("node ports do not follow the node's address")
	}
}

// What the run before left of the kernel path is put back where somebody flushes it while
// nothing but a last good state is known, beside what that added and with what it left as
// it was; and no longer once a whole view is known. So it is where the node's pods are not known, and
// the rules of the run before stay in force until then.
func TestRepairOfTheKernelPathOfARunBefore(t *testing.T) {
	t.Parallel()
	for name, pods := range map[string][]netip.Prefix{"pods known": kernelConfig().PodCIDRs, "pods not known": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := kernelConfig()
			cfg.PodCIDRs = pods
			repairsARunBefore(t, cfg)
		})
	}
}

func repairsARunBefore(t *testing.T, cfg plan.Config) {
	testkit.NewNetwork(t)
	host := testHost(t)
	web := func(names ...string) plan.KernelFrontend {
		return plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, names...)}
	}
	added := plan.KernelFrontend{Frontend: tcp("10.96.0.9:80"), Tiers: tiers(false, "a", "b")}
	newer, older := map[string][]plan.KernelFrontend{"example": example()}, map[string][]plan.KernelFrontend{"example": {web("a", "far"), added}}
	must(t, starting(t, cfg, host).setKernel(newer, false))
	c := starting(t, cfg, host)
	must(t, c.setKernel(older, true))
	want := kernelState(t)
	flushed := func(when string, want map[string]string) {
		t.Helper()
		c.table.conn.FlushRuleset()
		must(t, c.table.conn.Flush())
		if repaired, err := c.Repair(); !repaired || err != nil {
			t.Fatalf("%s: repaired %v, %v", when, repaired, err)
		}
		got := kernelState(t)
		for key, was := range want {
			if now, there := got[key]; !there || now != was {
				t.Errorf("%s: %q was %q and is %q", when, key, was, now)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d elements and chains, want %d", when, len(got), len(want))
		}
		if again, err := c.Repair(); again || err != nil {
			t.Errorf("%s: again: %v, %v", when, again, err)
		}
	}
	flushed("provisional", want)
	flushed("provisional, and again", want)
	must(t, c.setKernel(older, false))
	flushed("whole", kernelState(t))
}

// What the kernel refuses to take back after a flush is owed, and put back as soon as it takes it:
// of what the last good state lacks nobody else knows until the cloud is back.
func TestWhatCouldNotBePutBackIsOwed(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	host := testHost(t)
	newer := map[string][]plan.KernelFrontend{"a": benchService(1, 3, 0), "b": benchService(2, 3, 0)}
	must(t, starting(t, kernelConfig(), host).setKernel(newer, false))
	c := starting(t, kernelConfig(), host)
	older := map[string][]plan.KernelFrontend{"a": benchService(1, 2, 0), "c": benchService(3, 2, 0)}
	must(t, c.setKernel(older, true))
	want := kernelState(t)
	refused := string(frontendKey(tcp("10.96.9.9:80")))
	c.kernel.earlier.elements.put(rules.Front.For(rules.IPv4), refused, "no-such-chain")
	c.table.conn.FlushRuleset()
	must(t, c.table.conn.Flush())
	for range 2 {
		if _, err := c.Repair(); err == nil {
			t.Fatal("the kernel took what leads nowhere: the test shows nothing")
		}
		if got := kernelState(t); len(got) == 0 || len(got) >= len(want) {
			t.Fatalf("%d of %d elements and chains: the test shows nothing", len(got), len(want))
		}
	}
	delete(c.kernel.earlier.elements[rules.Front.For(rules.IPv4)], refused)
	if repaired, err := c.Repair(); !repaired || err != nil {
		t.Fatalf("repaired %v, %v", repaired, err)
	}
	got := kernelState(t)
	if again, err := c.Repair(); again || err != nil {
		t.Errorf("again: %v, %v", again, err)
	}
	testkit.NewNetwork(t)
	older["b"] = newer["b"] // what is served by then stays
	must(t, starting(t, kernelConfig(), testHost(t)).setKernel(older, false))
	if want := kernelState(t); !maps.Equal(got, want) {
		t.Errorf("%d elements and chains, want %d", len(got), len(want))
	}
}
