package nodelocal

import (
	"context"
	"io"
	golog "log" //nolint:depguard // CoreDNS writes there
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// bind binds as CoreDNS does; what it returns ends with the test.
func bind(t *testing.T, network, address string) syscall.Conn {
	t.Helper()
	var bound io.Closer
	var err error
	if network == "tcp" {
		bound, err = sharing.Listen(context.Background(), network, address)
	} else {
		bound, err = sharing.ListenPacket(context.Background(), network, address)
	}
	must(t, err)
	t.Cleanup(func() { _ = bound.Close() })
	return bound.(syscall.Conn)
}

// another has another process hold sockets of its own; they go with it.
func another(t *testing.T, network, address string) (end func()) {
	t.Helper()
	conn := bind(t, network, address)
	var file *os.File
	var err error
	switch c := conn.(type) {
	case *net.UDPConn:
		file, err = c.File()
	case *net.TCPListener:
		file, err = c.File()
	}
	must(t, err)
	cmd := exec.Command("sleep", "600")
	cmd.ExtraFiles = []*os.File{file}
	must(t, cmd.Start())
	end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	must(t, file.Close())
	must(t, conn.(io.Closer).Close())
	return end
}

// counted are the metric's values, by address.
func counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	must(t, err)
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "coredns_nodelocal_other_sockets" {
			for _, m := range f.GetMetric() {
				found[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return found
}

// saidBy is what is logged from now on.
func saidBy(t *testing.T) *testkit.Output {
	t.Helper()
	said := &testkit.Output{}
	golog.SetOutput(said)
	t.Cleanup(func() { golog.SetOutput(os.Stderr) })
	return said
}

// A server that comes beside this one later, as one that a reload finds, is said
// once, and counted for as long as it is there; sockets of this process, and of
// others at other ports and addresses, are not.
func TestAnotherServerThatComesLater(t *testing.T) {
	testkit.NewNetwork(t)
	said := saidBy(t)
	n := &node{addrs: []netip.Addr{four, six}, port: 5353}
	must(t, n.start())
	const at, at6 = "169.254.20.11:5353", "[fd00:6772:6964::53]:5353"
	for _, network := range []string{"udp", "tcp"} {
		bind(t, network, at)
		bind(t, network, at6)
		another(t, network, "169.254.20.11:5454")
		another(t, network, "127.0.0.1:5353")
	}
	client, err := net.Dial("tcp", at) // a connection is no server
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	look := func(when string, v4, v6 float64, lines int) {
		t.Helper()
		for range 2 {
			n.look(time.Now())
		}
		if got, want := counted(t), map[string]float64{at: v4, at6: v6}; !maps.Equal(got, want) {
			t.Errorf("%s: %v are counted, want %v", when, got, want)
		}
		if got := said.Count("other processes of this node"); got != lines {
			t.Errorf("%s: said %d times, want %d: %s", when, got, lines, said.String())
		}
	}
	look("alone", 0, 0, 0)
	udp := another(t, "udp", at)
	look("a server of UDP", 1, 0, 1)
	tcp := another(t, "tcp", at6)
	look("one of TCP besides", 1, 1, 2)
	udp()
	tcp()
	look("they have gone", 0, 0, 2)
	if !strings.Contains(said.String(), "answer at "+at+", too") {
		t.Errorf("it is not said where: %s", said.String())
	}
	another(t, "udp", at)
	look("it is back", 1, 0, 3)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.run(ctx)
	if left := counted(t); len(left) > 0 {
		t.Errorf("a server that has ended still counts %v", left)
	}
}
