package capture

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// Who dials before there are rules for it, as pods do that start before the node's agent, is
// served by his next try, and so is who happens on his port later: conntrack would know him for
// two minutes as one who is not translated.
// So it is where a node boots without a cloud, too.
func TestWhoDialledBeforeIsServed(t *testing.T) {
	t.Parallel()
	for name, provisional := range map[string]bool{"online": false, "without a cloud": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dialledBefore(t, provisional)
		})
	}
}

// So is who dials by UDP, where conntrack knows him for as long as he sends: before the first view,
// while somebody had flushed all rules, and where node ports move to another address.
func TestWhoSentBeforeIsServed(t *testing.T) {
	t.Parallel()
	for name, provisional := range map[string]bool{"online": false, "without a cloud": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentBefore(t, provisional)
		})
	}
}

func sentBefore(t *testing.T, provisional bool) {
	t.Helper()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	external, moved := udp("203.0.113.7:53"), udp("0.0.0.0:30053")
	served := map[string][]plan.KernelFrontend{"default/dns": {
		{Frontend: external, Tiers: tiers(false, "b"), Outside: &plan.KernelOutside{}}, {Frontend: moved, Tiers: tiers(false, "b"), Outside: &plan.KernelOutside{}},
	}}
	answered := l.sends(t, external.AddrPort().String())
	must(t, l.setKernel(served, provisional))
	answered("the first view")

	table := l.kernel.table
	for when, harm := range map[string]func(){
		"flushed":       func() { table.conn.DelTable(table.nft) },
		"rules flushed": func() { table.conn.FlushTable(table.nft) },
		"elements flushed": func() {
			for name, set := range table.sets {
				if strings.HasPrefix(name, string(rules.Front)) {
					table.conn.FlushSet(set)
				}
			}
		},
	} {
		harm()
		must(t, table.conn.Flush())
		answered = l.sends(t, external.AddrPort().String())
		if repaired, err := l.Repair(); !repaired || err != nil {
			t.Errorf("%s: repaired %v, %v", when, repaired, err)
		}
		answered(when)
	}

	answered = l.sends(t, "192.0.2.250:30053") // which the node does not have yet
	address(t, "up0", "192.0.2.250/32")
	cfg := *l.cfg.Kernel
	cfg.NodePortAddresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.250/32")}
	l.Capture.cfg.Kernel = &cfg
	_, err := l.Repair()
	must(t, err)
	answered("another address")
}

func dialledBefore(t *testing.T, provisional bool) {
	t.Helper()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	from, to := map[string]*testkit.Network{"10.244.0.5": l.a, "192.0.2.1": l.node, "192.0.2.9": l.outside}, "203.0.113.7:80"
	answers := make(chan string, len(from))
	for ip, ns := range from {
		go func() {
			start := time.Now()
			conn, answer := dial(t, ns, "tcp", ip+":40001", to, 20*time.Second)
			if conn != nil {
				_ = conn.Close()
			}
			answers <- ip + ": " + answer + " after " + time.Since(start).Round(time.Millisecond).String()
		}()
	}
	l.untilSYNs(t, to, len(from))
	must(t, l.setKernel(map[string][]plan.KernelFrontend{"default/web": {{Frontend: tcp(to), Tiers: tiers(false, "b")}}}, provisional))
	for range from {
		answer := <-answers
		t.Log(answer)
		if !strings.Contains(answer, ": b ") {
			t.Errorf("%s; want the endpoint's answer", answer)
		}
	}
}

// So is who sends to a Service that the run before served, and the last good state lacks: a flush while the cloud is away
// is put back from what was there.
func TestWhoSentToARunBeforeIsServed(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	external := udp("203.0.113.7:53")
	must(t, l.setKernel(map[string][]plan.KernelFrontend{"default/dns": {{Frontend: external, Tiers: tiers(false, "b"), Outside: &plan.KernelOutside{}}}}, false))
	l.flows.stop()
	c := starting(t, l.cfg, l.host)
	must(t, c.setKernel(map[string][]plan.KernelFrontend{"web": example()}, true))
	c.kernel.table.conn.DelTable(c.kernel.table.nft)
	must(t, c.kernel.table.conn.Flush())
	answered := l.sends(t, external.AddrPort().String())
	if repaired, err := c.Repair(); !repaired || err != nil {
		t.Fatalf("repaired %v, %v", repaired, err)
	}
	answered("put back")
}

// sends has a pod and the node send to who does not answer, and returns what waits until they are answered.
func (l *kernelLab) sends(t *testing.T, to string) (answered func(when string)) {
	t.Helper()
	conns := map[string]net.Conn{}
	for name, ns := range map[string]*testkit.Network{"a": l.a, "node": l.node} {
		conn, answer := dial(t, ns, "udp", "", to, 300*time.Millisecond)
		for again := 0; again < 3 && conn != nil && answer != isSilent; again++ { // its port may be one whose flow of before is known still
			_ = conn.Close()
			conn, answer = dial(t, ns, "udp", "", to, 300*time.Millisecond)
		}
		if conn == nil || answer != isSilent {
			t.Fatalf("%s is answered %q before there are rules", name, answer)
		}
		conns[name] = conn
	}
	return func(when string) {
		t.Helper()
		for name, conn := range conns {
			answer := ask(conn, 10*time.Second)
			for begin := time.Now(); answer == isRefused && time.Since(begin) < 5*time.Second; { // conntrack is asked beside who writes
				answer = ask(conn, time.Second)
			}
			if !strings.HasPrefix(answer, "b ") {
				t.Errorf("%s, %s: %q; want the endpoint's answer", when, name, answer)
			}
			_ = conn.Close()
		}
	}
}
