package datapath

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/xds/admin"
)

// open connects, asks who is there, and stays.
func open(ns *netlab.NS, f *fleet) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answers)
	defer cancel()
	conn, err := ns.Dial(ctx, "tcp", f.at(0).String())
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(answers))
	if _, err = fmt.Fprintln(conn, "who"); err == nil {
		_, err = bufio.NewReader(conn).ReadString('\n')
	}
	if err != nil {
		_ = conn.Close()
	}
	return conn, err
}

// limitHeap starts the Envoy of a node anew with a heap limit, for a test.
func limitHeap(t *testing.T, e *edge.Node, mib int) {
	t.Helper()
	kept := e.Flags
	restart := func(flags ...string) {
		e.Envoy.Kill()
		e.Flags = flags
		must(t, e.StartEnvoy())
		ready(t, e)
		connected(t, e)
	}
	t.Cleanup(func() { restart(kept...) })
	restart(append(slices.Clone(kept), "--envoy-heap-limit", fmt.Sprint(mib))...)
}

// Pods that open connections without end do not take Envoy's memory: at a
// number that follows from the heap limit they are refused, at once, until
// some are closed; whoever looks after Envoy gets in.
func TestConnectionsAreBoundedByTheHeapLimit(t *testing.T) {
	f := deploy(t, "limits", `["unit"]`)
	f.served(t)
	e := named(t, "a-1")
	const heap, most = 64, 64 << 20 / 2 / (20 << 10) // MiB, connections
	limitHeap(t, e, heap)
	pods := []*netlab.NS{f.pods["a-1"].NS}
	for i := range 5 { // none of them comes to its own share
		pod, err := e.AddPod(fmt.Sprintf("limits-more-%d", i))
		must(t, err)
		t.Cleanup(func() { must(t, pod.Remove()) })
		pods = append(pods, pod.NS)
	}
	from := pods[0]
	wait.Eventually(t, func() error {
		_, err := edge.Ask(from, "tcp", f.at(0), time.Second)
		return err
	})
	before, err := e.Envoy.ResidentMiB()
	must(t, err)
	var list []net.Conn
	t.Cleanup(func() {
		for _, conn := range list {
			_ = conn.Close()
		}
	})
	for len(list) <= most {
		conn, err := open(pods[len(list)%len(pods)], f)
		if err != nil {
			t.Logf("connection %d: %v", len(list)+1, err)
			break
		}
		list = append(list, conn)
	}
	after, err := e.Envoy.ResidentMiB()
	must(t, err)
	t.Logf("%d connections of %d: %d MiB before, %d MiB after", len(list), most, before, after)
	if len(list) > most || len(list) < most*9/10 {
		t.Errorf("%d connections were served, want %d", len(list), most)
	}
	start := time.Now()
	if _, err := open(from, f); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("one more: %v after %s", err, time.Since(start))
	}
	asker := admin.New(filepath.Join(e.Dir, "admin.sock"))
	said, err := asker.Stats(t.Context())
	must(t, err)
	told := said.Overload
	const more = 20
	for range more {
		if conn, err := open(from, f); err == nil {
			list = append(list, conn)
		}
	}
	wait.Eventually(t, func() error {
		said, err := asker.Stats(t.Context())
		now := said.Overload
		if refused := now.Refused - told.Refused; err == nil && (refused < more*9/10 || refused > more*11/10 || now.Connections < uint64(most)*9/10) {
			err = fmt.Errorf("Envoy says %+v, and %+v before it refused %d connections", now, told, more)
		}
		return err
	})
	if _, err := e.Admin("/listeners"); err != nil {
		t.Errorf("Envoy's admin socket: %v", err)
	}
	for _, conn := range list[:50] {
		_ = conn.Close()
	}
	wait.Eventually(t, func() error {
		_, err := edge.Ask(from, "tcp", f.at(0), time.Second)
		return err
	})
}
