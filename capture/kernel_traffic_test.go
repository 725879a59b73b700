package capture

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// frontendsOf is one of each kind, of a protocol and a family.
func frontendsOf(p topology.Protocol, ipv6 bool) (list []plan.KernelFrontend) {
	cluster, external, unspecified := "10.96.0.%d:80", "203.0.113.%d:80", "0.0.0.0:%d"
	allowed := netip.MustParsePrefix("192.0.2.0/28")
	if ipv6 {
		cluster, external, unspecified = "[fd00:96::%d]:80", "[2001:db8:1::%d]:80", "[::]:%d"
		allowed = netip.MustParsePrefix("2001:db8::/124")
	}
	on := func(format string, n int) topology.Frontend { return onPort(fmt.Sprintf(format, n), p) }
	to := func(names ...string) [][]netip.AddrPort { return tiers(ipv6, names...) }
	here := &plan.KernelOutside{Local: true, LocalTiers: to("b")}
	return []plan.KernelFrontend{
		{Frontend: on(cluster, 1), Tiers: to("b")},
		{Frontend: on(cluster, 2), Tiers: to("far")},
		{Frontend: on(cluster, 3), Tiers: to("a")},
		{Frontend: on(cluster, 4)},
		{Frontend: on(cluster, 5), Silent: true},
		{Frontend: on(unspecified, 30080), Tiers: to("b"), Outside: &plan.KernelOutside{}},
		{Frontend: on(unspecified, 30081), Tiers: to("far"), Outside: here},
		{Frontend: on(unspecified, 30082), Tiers: to("far"), Outside: &plan.KernelOutside{Local: true, Silent: true}},
		{Frontend: on(unspecified, 30083), Outside: &plan.KernelOutside{}},
		{Frontend: on(external, 1), Tiers: to("b"), Outside: &plan.KernelOutside{}},
		{Frontend: on(external, 2), Tiers: to("far"), Outside: &plan.KernelOutside{Local: true, LocalTiers: to("b"), Sources: []netip.Prefix{allowed}}},
		{Frontend: on(external, 3), Outside: &plan.KernelOutside{}},
		{Frontend: on(external, 4), Tiers: to("far"), Outside: &plan.KernelOutside{Sources: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:1::/64")}}},
	}
}

// Who answers whom: kept is the client's own address and port, node one of the
// node's addresses.
var whoAnswers = []struct {
	to               string
	a, host, outside string
}{
	{"cluster 1", "b kept", "b node", "b node"},
	{"cluster 2", "far kept", "far node", "far node"},
	{"cluster 3", "a node", "a node", "a node"},
	{"cluster 4", isRefused, isRefused, isRefused},
	{"cluster 5", isSilent, isSilent, isSilent},
	{"cluster 9", isRefused, isRefused, isRefused},
	{"node 30080", "b node", "b node", "b node"},
	{"node 30081", "far kept", "far node", "b kept"},
	{"node 30082", "far kept", "far node", isSilent},
	{"node 30083", isRefused, isRefused, isRefused},
	{"external 1", "b node", "b node", "b node"},
	{"external 2", isSilent, "far node", "b kept"},
	{"external 3", isRefused, isRefused, isRefused},
	{"external 4", isSilent, isSilent, isSilent},
}

func TestKernelServes(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		kept bool
		keep time.Duration
	}{
		"bridge netfilter kept false": {}, "bridge netfilter kept true": {kept: true}, "affinity": {keep: time.Hour},
	} {
		cfg := kernelConfig()
		cfg.KeepBridgeNetfilter = of.kept
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newKernelLab(t, cfg)
			for name, n := range map[string]*testkit.Network{"a": l.a, "b": l.b, "far": l.far} {
				l.serve(t, name, n)
			}
			for _, p := range []topology.Protocol{topology.TCP, topology.UDP} {
				for _, f := range append(frontendsOf(p, false), frontendsOf(p, true)...) { // which are Services of their own
					must(t, l.setKernel(map[string][]plan.KernelFrontend{f.String(): sticky(f.String(), of.keep, []plan.KernelFrontend{f})}, false))
				}
			}
			for _, p := range []topology.Protocol{topology.TCP, topology.UDP} {
				for _, ipv6 := range []bool{false, true} {
					l.checkFlows(t, p.String(), ipv6)
				}
			}
		})
	}
}

// addressesOf are those of a family, of who dials and of what is dialled.
func addressesOf(ipv6 bool) map[string]string {
	if ipv6 {
		return map[string]string{"cluster": "[fd00:96::%s]:80", "node": "[2001:db8::1]:%s", "external": "[2001:db8:1::%s]:80", "a": "fd00:244::5", "host": "2001:db8::1", "outside": "2001:db8::9"}
	}
	return map[string]string{"cluster": "10.96.0.%s:80", "node": "192.0.2.1:%s", "external": "203.0.113.%s:80", "a": "10.244.0.5", "host": "192.0.2.1", "outside": "192.0.2.9"}
}

func (l *kernelLab) checkFlows(t *testing.T, network string, ipv6 bool) {
	t.Helper()
	addrs := addressesOf(ipv6)
	for i, f := range whoAnswers {
		kind, n, _ := strings.Cut(f.to, " ")
		to := fmt.Sprintf(addrs[kind], n)
		for name, want := range map[string]string{"a": f.a, "host": f.host, "outside": f.outside} {
			from := map[string]*testkit.Network{"a": l.a, "host": l.node, "outside": l.outside}[name]
			local := netip.AddrPortFrom(netip.MustParseAddr(addrs[name]), uint16(20000+i)).String()
			patience := 10 * time.Second
			if want == isSilent {
				patience = 300 * time.Millisecond // silence is what is waited for
			}
			conn, answer := dial(t, from, network, local, to, patience)
			if conn != nil {
				conn.Close()
			}
			if got := keptOrNode(answer, local); got != want {
				t.Errorf("%s %s from %s: %s (%s), want %s", network, to, name, got, answer, want)
			}
		}
	}
}

// The tracer says of each packet what real ones are answered: the rules of the kernel
// path are walked as they are written.
func TestTheTracerWalksTheKernelPath(t *testing.T) {
	t.Parallel()
	names := map[netip.AddrPort]string{}
	for _, name := range []string{"a", "b", "far"} {
		for _, ipv6 := range []bool{false, true} {
			names[tiers(ipv6, name)[1][0]] = name
		}
	}
	for i, kept := range []bool{false, true, false} {
		cfg := kernelConfig()
		cfg.KeepBridgeNetfilter = kept
		for _, p := range []topology.Protocol{topology.TCP, topology.UDP} {
			planner := plan.NewKernelPlanner(cfg, cfg.Kernel.NodeIPs)
			planner.Set("web", sticky("web", time.Duration(i/2)*time.Hour, append(frontendsOf(p, false), frontendsOf(p, true)...)))
			planner.Settle()
			state, guard := rules.KernelStateOf(planner), &plan.Plan{Guard: cfg.ServiceCIDRs, Pods: cfg.PodCIDRs}
			for _, ipv6 := range []bool{false, true} {
				for _, f := range whoAnswers {
					addrs := addressesOf(ipv6)
					kind, n, _ := strings.Cut(f.to, " ")
					for from, want := range map[string]string{"a": f.a, "host": f.host, "outside": f.outside} {
						walk := rules.Inet(cfg).WalkWith(guard, state, rules.Packet{
							Src: netip.MustParseAddr(addrs[from]), To: onPort(fmt.Sprintf(addrs[kind], n), p),
							Local: from == "host", ToNode: kind == "node", Bridged: from == "a",
						})
						if got := answered(walk, names); got != want {
							t.Errorf("bridge netfilter kept %v, affinity %v, %s %s from %s: %s, want %s; rules: %v", kept, i == 2, p, f.to, from, got, want, walk.Met)
						}
					}
				}
			}
		}
	}
}

// answered is a walk as whoAnswers says it.
func answered(w rules.Walk, names map[netip.AddrPort]string) string {
	switch {
	case w.Fate == rules.Refused:
		return isRefused
	case w.Fate == rules.Dropped:
		return isSilent
	case w.Fate != rules.ToEnd || len(w.Ends) != 1:
		return fmt.Sprint(w.Fate, w.Ends)
	case w.Masqueraded:
		return names[w.Ends[0]] + " node"
	}
	return names[w.Ends[0]] + " kept"
}

// keptOrNode says whether the client was seen as who it is.
func keptOrNode(answer, local string) string {
	name, source, answered := strings.Cut(answer, " ")
	ap, err := netip.ParseAddrPort(source)
	switch {
	case !answered || err != nil:
		return answer
	case source == local:
		return name + " kept"
	}
	for _, own := range []string{"10.244.0.1", "10.99.0.1", "192.0.2.1", "fd00:244::1", "fd00:99::1", "2001:db8::1"} {
		if ap.Addr() == netip.MustParseAddr(own) {
			return name + " node"
		}
	}
	return answer
}

// A load balancer's address that is the node's own too: the node dials with it.
func TestKernelSourcesOfTheNode(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "far", l.far)
	address(t, "lo", "203.0.113.7/32")
	l.put(t, plan.KernelFrontend{
		Frontend: tcp("203.0.113.7:80"), Tiers: tiers(false, "far"),
		Outside: &plan.KernelOutside{Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29")}},
	})
	for from, n := range map[string]*testkit.Network{"203.0.113.7:20000": l.node, "192.0.2.1:20000": l.node, "": l.outside} {
		conn, answer := dial(t, n, "tcp", from, "203.0.113.7:80", map[bool]time.Duration{true: 10 * time.Second, false: 300 * time.Millisecond}[from != ""])
		if conn != nil {
			conn.Close()
		}
		if served := strings.HasPrefix(answer, "far "); served != (from != "") {
			t.Errorf("from %q: %s", from, answer)
		}
	}
}

// All endpoints of a frontend get their share.
func TestKernelSpreads(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	l.put(t, plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, "b", "far")})
	seen := map[string]int{}
	for range 60 {
		name, _ := once(t, l.a, "", "10.96.0.1:80")
		seen[name]++
	}
	if seen["b"] < 10 || seen["far"] < 10 || len(seen) != 2 {
		t.Errorf("60 connections: %v", seen)
	}
}

// An endpoint that goes leaves open connections alone, and gets no new ones.
func TestKernelEndpointGoes(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	web := plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, "b")}
	l.put(t, web)
	conn, answer := dial(t, l.a, "tcp", "", "10.96.0.1:80", 10*time.Second)
	if conn == nil {
		t.Fatal(answer)
	}
	defer conn.Close()
	web.Tiers = tiers(false, "far")
	l.put(t, web)
	if name, _ := once(t, l.a, "", "10.96.0.1:80"); name != "far" {
		t.Errorf("a new connection is answered by %s", name)
	}
	alive(t, conn)
	web.Tiers = nil
	l.put(t, web)
	if name, _ := once(t, l.a, "", "10.96.0.1:80"); name != isRefused {
		t.Errorf("a new connection without endpoints: %s", name)
	}
	alive(t, conn)
}

// alive says something on a connection and hears it again.
func alive(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // there was one for what was said before
	_, err := conn.Write([]byte("still there"))
	if err == nil {
		if said := ask(conn, 10*time.Second); said != "still there" {
			t.Errorf("an open connection: %s", said)
		}
	} else {
		t.Errorf("an open connection: %v", err)
	}
}

// followsWithin is five times what a flow may take from an endpoint that is gone, the short
// pause and a look at conntrack, for a machine that has others to serve (TestFlowsOfLongLooks).
const followsWithin = 5 * time.Second

// A UDP flow that goes on from one port follows its Service: it leaves an endpoint
// that is gone, also where there is no other, and finds the first one.
func TestKernelUDPFollows(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	for name, n := range map[string]*testkit.Network{"b": l.b, "far": l.far} {
		l.serve(t, name, n)
	}
	for name, to := range map[string]topology.Frontend{"cluster": udp("10.96.0.1:53"), "external": udp("203.0.113.5:53"), "IPv6": udp("[fd00:96::1]:53")} {
		dns := plan.KernelFrontend{Frontend: to}
		if name == "external" { // which, unknown, takes the default route
			dns.Outside = &plan.KernelOutside{}
		} else {
			l.put(t, dns)
		}
		conn, answer := dial(t, l.a, "udp", "", to.AddrPort().String(), 300*time.Millisecond)
		if conn == nil {
			t.Fatal(answer)
		}
		defer conn.Close()
		expect := func(when, want string) {
			t.Helper()
			if got, _, _ := strings.Cut(ask(conn, 10*time.Second), " "); got != want {
				t.Errorf("%s, %s: %s answers, want %s", name, when, got, want)
			}
		}
		follows := func(want string) {
			t.Helper()
			begin, got := time.Now(), ""
			for got != want && time.Since(begin) < followsWithin {
				got, _, _ = strings.Cut(ask(conn, 10*time.Second), " ")
			}
			if got != want {
				t.Errorf("%s, another endpoint: %s answers after %s, want %s", name, got, followsWithin, want)
			}
			t.Logf("%s: %s answers after %s", name, want, time.Since(begin))
		}
		for _, endpoint := range []string{"b", "far", "b"} {
			dns.Tiers = tiers(to.Addr.Is6(), endpoint)
			l.put(t, dns)
			follows(endpoint)
		}
		dns.Tiers = append(tiers(to.Addr.Is6(), "far"), dns.Tiers...)
		l.put(t, dns)
		expect("another is nearer, and its own serves", "b")
		dns.Tiers = nil
		l.put(t, dns)
		begin, got := time.Now(), "b"
		for got == "b" && time.Since(begin) < followsWithin {
			got, _, _ = strings.Cut(ask(conn, 300*time.Millisecond), " ")
		}
		if t.Logf("%s: %s after %s where there is none any more", name, got, time.Since(begin)); got == "b" {
			t.Errorf("%s: who may serve no more still answers after %s", name, followsWithin)
		}
		dns.Tiers = tiers(to.Addr.Is6(), "far")
		l.put(t, dns)
		follows("far")
	}
}
