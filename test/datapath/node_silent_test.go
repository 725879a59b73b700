package datapath

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// silentCloud is an API server on a node that takes connections and says
// nothing, as behind a line that died; the kubeconfig leads to it.
func silentCloud(t *testing.T, e *edge.Node) (kubeconfig string) {
	t.Helper()
	var l net.Listener
	must(t, e.NS.Do(func() (err error) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var open []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			open = append(open, conn)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}],
 clusters: [{name: x, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}]}`, l.Addr())
	must(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	return kubeconfig
}

// follow makes the agent of a node follow another source until the test ends;
// the caller stops and starts it.
func follow(t *testing.T, e *edge.Node, flags ...string) {
	t.Helper()
	usual := e.Flags
	e.Flags = slices.Concat(flags, []string{"--service-cidr", netlab.ServiceCIDR4.String() + "," + netlab.ServiceCIDR6.String()})
	t.Cleanup(func() {
		e.Agent.Signal(syscall.SIGTERM)
		e.Flags = usual
		must(t, e.StartAgent())
		ready(t, e)
	})
}

// guarded returns nil once both ranges of Services are guarded on a node.
func guarded(e *edge.Node) error {
	conn, err := e.NS.NFT()
	if err != nil {
		return err
	}
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: "gridmesh"}
	for _, name := range []string{"guard4", "guard6"} {
		set, err := conn.GetSetByName(table, name)
		if err != nil {
			return err
		}
		list, err := conn.GetSetElements(set)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("%s is empty", name)
		}
	}
	return nil
}

// A node that has never run gridmesh starts beside an API server that says
// nothing: the guard is in force before anything is asked, and not after that
// has timed out.
func TestGuardDoesNotWaitForTheCloud(t *testing.T) {
	f := deploy(t, "silent", `["unit"]`)
	f.served(t)
	e := named(t, "a-1")
	e.Agent.Signal(syscall.SIGTERM)
	if out, err := e.Run("cleanup"); err != nil {
		t.Fatalf("cleanup: %v: %s", err, out)
	}
	must(t, os.RemoveAll(e.Dir+"/state"))
	follow(t, e, "--kubeconfig", silentCloud(t, e))
	must(t, e.StartAgent())
	took := wait.Eventually(t, func() error { return guarded(e) })
	for _, asked := range []string{"could not ask for NetworkPolicies", "no pod CIDR is known"} {
		if log := e.Agent.Log(); strings.Contains(log, asked) {
			t.Errorf("the guard waited %s for an API server:\n%s", took, log)
		}
	}
	leaks.None(t, w.lab, leaks.Any)
	dials := load.Start(t, []*netlab.NS{e.NS, f.pods["a-1"].NS}, f.at(0), f.at(1))
	wait.Eventually(t, func() error {
		if !strings.Contains(e.Agent.Log(), "could not ask for NetworkPolicies") {
			return errors.New("what is asked has not timed out yet")
		}
		return nil
	})
	dials.More(t, 20)
	for _, d := range dials.Stop() {
		if !errors.Is(d.Err, syscall.ECONNREFUSED) {
			t.Fatalf("not refused: %v", d.Err)
		}
	}
}

// With the cloud silent a node serves from its last good state; what somebody
// flushes of that is back, with all that it serves.
func TestFlushedWithoutACloud(t *testing.T) {
	f := deploy(t, "flushed", `["unit"]`)
	f.served(t)
	e := named(t, "a-1")
	wait.Eventually(t, func() error { return e.Kept(edge.AgentState, "default/flushed", f.pods["a-2"].IP) })
	e.Agent.Signal(syscall.SIGTERM)
	if out, err := e.Run("cleanup"); err != nil { // as after a reboot: no rules are left
		t.Fatalf("cleanup: %v: %s", err, out)
	}
	follow(t, e, "--kubeconfig", silentCloud(t, e))
	must(t, e.StartAgent())
	serves := func() error {
		var errs []error
		for i := range f.ips {
			for _, ns := range []*netlab.NS{e.NS, f.pods["a-1"].NS} {
				_, err := edge.Ask(ns, "tcp", f.at(i), time.Second)
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	wait.Eventually(t, serves)
	if log := e.Agent.Log(); !strings.Contains(log, "serving from the last good state") {
		t.Fatalf("served from elsewhere:\n%s", log)
	}
	conn, err := e.NS.NFT()
	must(t, err)
	conn.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "gridmesh"})
	must(t, conn.Flush())
	took := wait.Within(t, repairs, serves)
	t.Logf("served again %s after somebody deleted the table, without a cloud", took)
}
