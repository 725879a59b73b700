package capture

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// Behind Envoy the kernel path serves the same frontends. Where nobody listens
// pods come there by themselves, the host when the agent says so; where Envoy
// hangs everybody does then. Neither switch cuts a connection of the kernel path.
func TestFailOpen(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	l.serve(t, "b", l.b)
	apply(t, l.Capture, newCluster().serve("web", "10.96.0.1", "10.244.0.6").serve("web6", "fd00:96::1", "fd00:244::6").view(), false)
	l.put(t,
		plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, "b")},
		plan.KernelFrontend{Frontend: tcp("[fd00:96::1]:80"), Tiers: tiers(true, "b")})
	const envoy, kernel = "envoy", "b"
	expect := func(when, pod, host, outside string) {
		t.Helper()
		for _, to := range []string{"10.96.0.1:80", "[fd00:96::1]:80"} {
			for _, c := range []struct {
				name, want string
				from       *testkit.Network
			}{{"pod", pod, l.a}, {"host", host, l.node}, {"outside", outside, l.outside}} {
				name, _ := once(t, c.from, "", to)
				if name == to {
					name = envoy // it says whom the client dialled
				}
				if name != c.want {
					t.Errorf("%s: %s is answered by %s at %s, want %s", when, c.name, name, to, c.want)
				}
			}
		}
	}
	expect("Envoy has not begun", kernel, isRefused, kernel)
	must(t, l.EnvoyAbsent(true))
	expect("and the agent says so", kernel, kernel, kernel)
	pod, _ := dial(t, l.a, "tcp", "", "10.96.0.1:80", 10*time.Second)
	host, _ := dial(t, l.node, "tcp", "", "[fd00:96::1]:80", 10*time.Second)
	if pod == nil || host == nil {
		t.Fatal("no connections")
	}
	defer pod.Close()
	defer host.Close()
	open := func() {
		t.Helper()
		alive(t, pod)
		alive(t, host)
	}
	stop := listen(t, cfg)
	open()
	expect("Envoy hangs", kernel, kernel, kernel)
	must(t, l.EnvoyAbsent(false))
	open()
	expect("Envoy is there", envoy, envoy, envoy)
	open()
	stop()
	expect("Envoy is gone", kernel, isRefused, kernel)
	open()
	must(t, l.EnvoyAbsent(true))
	open()
	expect("and the agent says so", kernel, kernel, kernel)
	// What the capture's table is made anew with.
	l.table.conn.DelTable(l.table.nft)
	must(t, l.table.conn.Flush())
	repaired, err := l.Repair()
	must(t, err)
	if !repaired {
		t.Error("the table was not repaired")
	}
	open()
	expect("after a repair", kernel, kernel, kernel)
}

// What is closed stays closed: a frontend without endpoints is refused, with
// Envoy and without.
func TestFailOpenStaysClosed(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	l.put(t, plan.KernelFrontend{Frontend: tcp("10.96.0.1:80")})
	for _, absent := range []bool{false, true} {
		must(t, l.EnvoyAbsent(absent))
		for name, from := range map[string]*testkit.Network{"pod": l.a, "host": l.node, "outside": l.outside} {
			for _, to := range []string{"10.96.0.1:80", "10.96.0.1:81", "10.96.9.9:80"} {
				if got, _ := once(t, from, "", to); got != isRefused {
					t.Errorf("%s, absent %v: %s answers at %s", name, absent, got, to)
				}
			}
		}
	}
}

// What was said of Envoy outlives the table that it is in, whoever said it.
func TestAbsenceOutlivesTheTable(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	k := newCluster().serve("web", "10.96.0.1", "10.244.0.6")
	c := starting(t, kernelConfig(), testHost(t))
	expect := func(when string, absent bool) {
		t.Helper()
		want := map[bool]string{false: "[]", true: "[06 11 84]"}[absent]
		list, err := nft.ReadMap(rules.Name, rules.Absent)
		must(t, err)
		var keys []string
		for _, e := range list {
			keys = append(keys, fmt.Sprintf("%x", e.Key))
		}
		slices.Sort(keys)
		if got := fmt.Sprint(keys); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	for _, absent := range []bool{true, false, true} {
		must(t, c.EnvoyAbsent(absent))
		must(t, c.installTable(true))
		expect("made anew before the first view", absent)
	}
	apply(t, c, k.view(), false)
	must(t, c.installTable(true))
	expect("and after it", true)
	c = starting(t, kernelConfig(), testHost(t))
	must(t, c.installTable(true))
	expect("by an agent that knows nothing of Envoy yet", true)
	apply(t, c, k.view(), false)
	must(t, c.installTable(true))
	expect("with all that it serves", true)
	must(t, c.EnvoyAbsent(false))
	must(t, c.installTable(true))
	expect("Envoy is there", false)
}

// Whom the switch meets on the way is served all the same: the host's packets choose their
// path as they leave, and go on to it.
func TestTheSwitchRefusesNobody(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	l.serve(t, "b", l.b)
	const to = "10.96.0.1:80"
	apply(t, l.Capture, newCluster().serve("web", "10.96.0.1", "10.244.0.6").view(), false)
	l.put(t, plan.KernelFrontend{Frontend: tcp(to), Tiers: tiers(false, "b")})
	defer listen(t, cfg)()
	switches := 0
	dials, refused := l.dialWhile(t, []*testkit.Network{l.node, l.a}, to, func() {
		must(t, l.EnvoyAbsent(switches%2 == 0))
		switches++
	}, func(dials int64) bool { return dials >= 100 && switches >= 100 })
	t.Logf("%d switches, %d dials", switches, dials)
	if refused > 0 || dials < 100 || switches < 100 {
		t.Errorf("%d refused", refused)
	}
}
