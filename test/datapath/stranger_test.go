package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// Somebody of the node who is not root has Envoy's ports once it is dead, and answers in its
// place: he is told by name, nobody asks him, and the kernel serves on, the host too.
func TestAStrangerHasEnvoysPorts(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "stranger", `["unit"]`)
	f.served(t)
	e := named(t, "a-1")
	twoPaths(t, e)
	absent(t, e, "0")
	e.Envoy.Kill()
	asked, leave := squat(t, e, "127.0.0.1:15001", "127.0.0.1:15002", "127.0.0.1:15009")
	findings := func(want string) {
		t.Helper()
		wait.Eventually(t, func() error {
			got, err := readMetric(e, `gridmesh_node_findings{kind="envoy-ports"}`)
			if err == nil && got != want {
				err = fmt.Errorf("%q findings, want %q", got, want)
			}
			return err
		})
	}
	absent(t, e, "1")
	findings("3")
	first := asked.Load() // one question may have been on its way to Envoy when it ended
	dials := load.Start(t, []*netlab.NS{e.NS, f.pods[e.Name].NS}, f.at(0), f.at(1))
	dials.More(t, 50)
	for _, d := range dials.Stop() {
		if d.Err != nil || !strings.HasPrefix(d.Name, "stranger-a-") {
			t.Errorf("answered by %q: %v", d.Name, d.Err)
		}
	}
	absent(t, e, "1")
	if n := asked.Load(); n != first || first > 1 {
		t.Errorf("he was asked %d times, %d of them once he was known", n, n-first)
	}
	leave()
	must(t, e.StartEnvoy())
	absent(t, e, "0")
	connected(t, e)
	findings("")
}

// squat listens on a node as a user who is not root, and answers whatever is asked.
func squat(t *testing.T, e *edge.Node, addresses ...string) (asked *atomic.Int32, leave func()) {
	t.Helper()
	const nobody = 65534
	var open []net.Listener
	err := e.NS.Do(func() error {
		_, _ = unix.SetfsuidRetUid(nobody) // of this thread alone; it has no error
		defer func() { _, _ = unix.SetfsuidRetUid(0) }()
		if is, _ := unix.SetfsuidRetUid(-1); is != nobody {
			return errNobody
		}
		for _, address := range addresses {
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", address)
			if err != nil {
				return err
			}
			open = append(open, l)
		}
		return nil
	})
	if errors.Is(err, errNobody) {
		t.Skip("SKIPPED: needs a user besides: start the tests as root")
	}
	must(t, err)
	asked = &atomic.Int32{}
	ended := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })} //nolint:gosec // of the test's own network
	for _, l := range open {
		go func() {
			_ = server.Serve(l)
			ended <- struct{}{}
		}()
	}
	left := false
	leave = func() {
		if left {
			return
		}
		left = true
		for _, l := range open {
			_ = l.Close()
		}
		_ = server.Close()
		for range open {
			<-ended
		}
	}
	t.Cleanup(leave)
	return asked, leave
}

var errNobody = errors.New("this user is none here")
