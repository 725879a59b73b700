package datapath

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// line is an open connection to an app, asked again and again.
type line struct {
	conn   net.Conn
	reader *bufio.Reader
}

func call(t *testing.T, from *netlab.NS, network string, to netip.AddrPort) *line {
	t.Helper()
	conn, err := from.Dial(context.Background(), network, to.String())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &line{conn, bufio.NewReader(conn)}
}

// who asks for the name of the app.
func (l *line) who() (string, error) { return l.whoWithin(answers) }

func (l *line) whoWithin(patience time.Duration) (string, error) {
	_ = l.conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(l.conn, "who"); err != nil {
		return "", err
	}
	answer, err := l.reader.ReadString('\n')
	name, _, _ := strings.Cut(answer, " ")
	return name, err
}

// into moves a node to another unit, or "" for none, until the end of the test.
func into(t *testing.T, e *edge.Node, unit string) {
	t.Helper()
	labels := map[string]string{"kubernetes.io/hostname": e.Name}
	if unit != "" {
		labels["unit"] = unit
	}
	w.state.node(e.Name, labels)
	must(t, w.state.write())
	t.Cleanup(func() {
		w.state.node(e.Name, map[string]string{"unit": e.Unit.Name, "kubernetes.io/hostname": e.Name})
		must(t, w.state.write())
	})
}

// Moving a node to another unit moves its new connections; open ones live on.
// A UDP session has no end to wait for: it follows at once.
func TestLabelChangeMovesTraffic(t *testing.T) {
	f := deploy(t, "move", `["unit"]`)
	f.served(t)
	e := w.nodes[0]
	open := call(t, e.NS, "tcp", f.at(0))
	before, err := open.who()
	must(t, err)
	if !strings.HasPrefix(before, "move-a-") {
		t.Fatalf("answered by %s", before)
	}
	var session *line
	wait.Eventually(t, func() error {
		session = call(t, e.NS, "udp", f.at(0))
		name, err := session.who()
		if err == nil && name != "move-a-2" {
			err = fmt.Errorf("answered by %s, not by the node that stays", name)
		}
		return err
	})
	into(t, e, "b")
	took := wait.Eventually(t, func() error {
		for range 8 {
			a, err := edge.Ask(e.NS, "tcp", f.at(0), time.Second)
			if err != nil {
				return err
			}
			if a.Name == "move-a-2" {
				return fmt.Errorf("still answered by %s", a.Name)
			}
		}
		return nil
	})
	t.Logf("new connections followed %s after the file (which is read every 250ms)", took)
	if name, err := session.who(); err != nil || name == "move-a-2" {
		t.Errorf("the UDP session is answered by %q: %v", name, err)
	}
	if after, err := open.who(); err != nil || after != before {
		t.Errorf("the open connection did not live on: %q, %v", after, err)
	}
}

// With --close-on-move open connections out of the unit are closed, and no
// others: not those that stay inside, nor those of other Services.
func TestCloseOnMove(t *testing.T) {
	closed, free := deploy(t, "left", `["unit"]`), deploy(t, "free", "")
	closed.served(t)
	free.served(t)
	for _, tc := range []struct{ name, unit string }{
		{"b-1", "a"},
		{"b-2", ""}, // then the node may use no endpoint at all
		{"b-3", "a"},
	} {
		t.Run(tc.name, func(t *testing.T) { closeOnMove(t, named(t, tc.name), tc.unit, closed, free) })
	}
}

func closeOnMove(t *testing.T, e *edge.Node, unit string, closed, free *fleet) {
	kept := e.Flags
	restart := func(flags ...string) {
		e.Agent.Signal(syscall.SIGTERM)
		e.Flags = flags
		must(t, e.StartAgent())
		ready(t, e)
		connected(t, e)
	}
	restart(append(kept[:len(kept):len(kept)], "--close-on-move")...)
	t.Cleanup(func() { restart(kept...) })

	// From the pod to the closed Service until each endpoint has a line, and
	// from the host to the free one.
	pod := closed.pods[e.Name].NS
	lines := map[string]*line{}
	for i := 0; len(lines) < len(e.Unit.Nodes) && i < 200; i++ {
		l := call(t, pod, "tcp", closed.at(i%2))
		name, err := l.who()
		must(t, err)
		lines[name] = l
	}
	var others []*line
	for i := range 16 {
		l := call(t, e.NS, "tcp", free.at(i%2))
		_, err := l.who()
		must(t, err)
		others = append(others, l)
	}
	into(t, e, unit)
	own := "left-" + e.Name // moves too
	if unit == "" {
		own = ""
	}
	for name, l := range lines {
		if name == own {
			continue
		}
		took := wait.Eventually(t, func() error {
			if _, err := l.who(); err == nil {
				return errors.New("a connection to " + name + " is still open")
			}
			return nil
		})
		t.Logf("the connection to %s was closed within %s", name, took)
	}
	if l, ok := lines[own]; ok {
		if name, err := l.who(); err != nil {
			t.Errorf("the connection to %s, did not live on: %v", name, err)
		}
	}
	for _, l := range others {
		if _, err := l.who(); err != nil {
			t.Errorf("a connection of a Service without keys did not live on: %v", err)
		}
	}
	if got := metric(t, e, "gridmesh_moved_connections_closed_total"); got == "0" || got == "" {
		t.Errorf("%q connections counted as closed", got)
	}
}
