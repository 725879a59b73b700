package capture

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// echo takes the place of Envoy: what is said is said again.
func echo(t *testing.T, address string) (stop func()) {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1) })
		return err
	}}
	l, err := lc.Listen(t.Context(), "tcp4", address)
	must(t, err)
	open := make(chan net.Conn, 10)
	go func() {
		defer close(open)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open <- conn
			go func() {
				r := bufio.NewReader(conn)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					_, _ = conn.Write([]byte(line))
				}
			}()
		}
	}()
	return func() {
		_ = l.Close()
		for conn := range open {
			_ = conn.Close()
		}
	}
}

func say(conn net.Conn, r *bufio.Reader, word string) error {
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintln(conn, word); err != nil {
		return err
	}
	got, err := r.ReadString('\n')
	if err == nil && got != word+"\n" {
		err = fmt.Errorf("answered %q", got)
	}
	return err
}

// A frontend may leave what is served: open connections live on, those of the
// host as those of pods, and end when Envoy does.
func TestOpenConnectionsLiveOn(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	pod := addPod(t, node)
	cfg := config()
	c := starting(t, cfg, testHost(t))
	k := newCluster().serve("web", "10.96.0.1", "10.244.0.5")
	apply(t, c, k.view(), false)
	stop := echo(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), cfg.Ports.Plain()).String())
	stopKept := echo(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), cfg.Ports.Keep()).String())
	dial := func(from *testkit.Network) (conn net.Conn, err error) {
		err = from.Do(func() error {
			conn, err = net.DialTimeout("tcp", web, 20*time.Second)
			return err
		})
		return conn, err
	}
	open := map[string]net.Conn{}
	readers := map[string]*bufio.Reader{}
	for name, from := range map[string]*testkit.Network{"the host": node, "a pod": pod} {
		conn, err := dial(from)
		must(t, err)
		defer conn.Close()
		open[name], readers[name] = conn, bufio.NewReader(conn)
		must(t, say(conn, readers[name], "served"))
	}
	silent := func() { // internalTrafficPolicy Local, and the endpoint moved away
		key := topology.ObjectKey{Namespace: "default", Name: "web"}
		k.SetService(&topology.Service{Key: key, InternalLocal: true, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}}})
		k.SetSlice(&topology.Slice{Key: key, Service: "web", Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: 8080}}, Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.244.9.9"), Node: "n1", Ready: true, Serving: true}}})
	}
	for _, step := range []struct {
		word   string
		change func()
	}{
		{"refused", func() { k.serve("web", "10.96.0.1") }},
		{"silent", silent},
		{"gone", func() { k.DeleteService(topology.ObjectKey{Namespace: "default", Name: "web"}) }},
	} {
		step.change()
		apply(t, c, k.view(), false)
		if serves(t, web) {
			t.Fatalf("%s: still served", step.word)
		}
		for name, conn := range open {
			if err := say(conn, readers[name], step.word); err != nil {
				t.Errorf("%s, to a frontend that is %s now: %v", name, step.word, err)
			}
		}
	}
	stop()
	stopKept()
	for name, conn := range open {
		if err := say(conn, readers[name], "Envoy is gone"); err == nil {
			t.Errorf("%s is answered by nobody", name)
		}
	}
}
