package capture

import (
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// envoyOfUDP takes the place of Envoy's listener of one frontend.
func envoyOfUDP(t *testing.T, frontend string) {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1) })
		return err
	}}
	l, err := lc.ListenPacket(t.Context(), "udp4", frontend)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		b := make([]byte, 2000)
		for {
			n, from, err := l.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = l.WriteTo([]byte("envoy "+from.String()+" "+string(b[:n])), from)
		}
	}()
}

// From a run with the kernel path to one without no flow of UDP is dark: the kernel path
// goes on until Envoy listens, and then all flows are Envoy's, those that are open too.
// Open connections of TCP stay.
func TestBackToEnvoy(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.put(t,
		plan.KernelFrontend{Frontend: udp("10.96.0.1:53"), Tiers: tiers(false, "b")},
		plan.KernelFrontend{Frontend: tcp("10.96.0.2:80"), Tiers: tiers(false, "b")})
	open := map[string]net.Conn{}
	for name, from := range map[string]*testkit.Network{"pod": l.a, "host": l.node} {
		conn, answer := dial(t, from, "udp", "", "10.96.0.1:53", 10*time.Second)
		if conn == nil || !strings.HasPrefix(answer, "b ") {
			t.Fatalf("%s: %s", name, answer)
		}
		defer conn.Close()
		open[name] = conn
	}
	old, _ := dial(t, l.a, "tcp", "", "10.96.0.2:80", 10*time.Second)
	if old == nil {
		t.Fatal("no connection")
	}
	defer old.Close()
	expect := func(when, want string) {
		t.Helper()
		for name, from := range map[string]*testkit.Network{"pod": l.a, "host": l.node} {
			if got, _, _ := strings.Cut(ask(open[name], 10*time.Second), " "); got != want {
				t.Errorf("%s: the open flow of the %s is answered by %s, want %s", when, name, got, want)
			}
			conn, answer := dial(t, from, "udp", "", "10.96.0.1:53", 10*time.Second)
			if got, _, _ := strings.Cut(answer, " "); got != want {
				t.Errorf("%s: a new flow of the %s is answered by %s, want %s", when, name, got, want)
			}
			if conn != nil {
				conn.Close()
			}
		}
		alive(t, old)
	}
	l.Capture = starting(t, config(), l.host)
	expect("started without the kernel path", "b")
	view := servesUDP("10.96.0.1", 53)
	apply(t, l.Capture, view, true)
	expect("the last good state", "b")
	apply(t, l.Capture, view, false)
	expect("the first whole view", "b")
	if repaired, err := l.Repair(); repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	expect("Envoy is late", "b")
	must(t, l.installTable(true)) // as where somebody made of it what it was not
	expect("the table is made anew", "b")
	envoyOfUDP(t, "10.96.0.1:53")
	if repaired, err := l.Repair(); repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	l.flows.ended.Wait()
	expect("Envoy listens", "envoy")
	if state := kernelState(t); len(state) > 0 {
		t.Errorf("left is %v", state)
	}
	if repaired, err := l.Repair(); repaired || err != nil {
		t.Errorf("and again: repaired %v, %v", repaired, err)
	}
}

// servesUDP is a view of one Service of UDP, by Envoy.
func servesUDP(ip string, port uint16) *topology.View {
	k := newCluster()
	key := topology.ObjectKey{Namespace: "default", Name: "dns"}
	k.SetService(&topology.Service{
		Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr(ip)},
		Ports: []topology.ServicePort{{Protocol: topology.UDP, Port: port}},
	})
	k.SetSlice(&topology.Slice{
		Key: key, Service: "dns", Ports: []topology.SlicePort{{Protocol: topology.UDP, Port: 8080}},
		Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.244.0.6"), Node: "n0", Ready: true, Serving: true}},
	})
	return k.view()
}

// An Envoy that never listens is not waited for without end.
func TestBackToAnEnvoyThatNeverListens(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.put(t, plan.KernelFrontend{Frontend: udp("10.96.0.1:53"), Tiers: tiers(false, "b")})
	l.Capture = starting(t, config(), l.host)
	apply(t, l.Capture, servesUDP("10.96.0.1", 53), false)
	l.leave.since = time.Now().Add(-leavePatience)
	if repaired, err := l.Repair(); repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	if state := kernelState(t); len(state) > 0 {
		t.Errorf("left is %v", state)
	}
	conn, answer := dial(t, l.a, "udp", "", "10.96.0.1:53", 10*time.Second)
	if answer != isRefused {
		t.Errorf("answered: %s", answer)
	}
	if conn != nil {
		conn.Close()
	}
}
