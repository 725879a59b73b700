package node

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/gridmesh/gridmesh/node/nodetest"
)

func conn(frontend, endpoint string) nodetest.Conn {
	return nodetest.Conn{Frontend: netip.MustParseAddrPort(frontend), Endpoint: netip.MustParseAddrPort(endpoint)}
}

// A node moves from unit a to unit b: what it holds open to a is closed, once
// Envoy had time to learn of the move.
func TestAMoveClosesStaleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.CloseOnMove = true
		r.mustStart(t)
		o := webOnly()
		r.publish(o)
		after(closeAfter)
		stays := conn("10.96.0.99:80", "10.244.2.5:8080") // of no Service
		r.capture.Open(conn("10.96.0.10:80", "10.244.2.5:8080"), conn("10.96.0.10:80", "10.244.9.5:8080"), stays)
		o.Node("a-1", "b")
		r.publish(o)
		after(closeAfter - 1)
		if n := len(r.capture.Conns()); n != 3 {
			t.Errorf("%d connections are open before Envoy could learn of the move, want 3", n)
		}
		after(1)
		open := r.capture.Conns()
		if len(open) != 2 || open[0] != conn("10.96.0.10:80", "10.244.9.5:8080") || open[1] != stays {
			t.Errorf("open: %v", open)
		}
		if n := r.metric(t, "gridmesh_moved_connections_closed_total"); n != 1 {
			t.Errorf("%v are counted, want 1", n)
		}
	})
}

// A failure is said once, and tried again with every repair.
func TestAFailureToCloseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.CloseOnMove = true
		r.mustStart(t)
		o := webOnly()
		o.Node("a-1", "b")
		r.capture.Open(conn("10.96.0.10:80", "10.244.2.5:8080"))
		r.capture.Fail("CloseStale", errBroken)
		r.publish(o)
		after(closeAfter)
		if r.log.Count("cannot close connections") != 1 || len(r.capture.Conns()) != 1 {
			t.Error("the failure was not said")
		}
		after(repairEvery)
		if n := len(r.capture.Conns()); n != 0 {
			t.Errorf("%d connections are open after the next attempt", n)
		}
	})
}

// Without --close-on-move nothing is closed, and neither is anything on the
// word of a state that may be out of date.
func TestConnectionsLiveOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		o := webOnly()
		o.Node("a-1", "b")
		r.publish(o)
		r.stop()
		r.again()
		r.capture.Open(conn("10.96.0.10:80", "10.244.2.5:8080"))
		r.cfg.CloseOnMove = true
		r.mustStart(t)
		after(2 * repairEvery)
		if n := len(r.capture.Conns()); n != 1 {
			t.Error("closed on the word of the last good state")
		}
		r.stop()
		r.again()
		r.capture.Open(conn("10.96.0.10:80", "10.244.2.5:8080"))
		r.cfg.CloseOnMove = false
		r.mustStart(t)
		r.publish(o)
		after(2 * repairEvery)
		if n := len(r.capture.Conns()); n != 1 {
			t.Error("closed though nobody asked for it")
		}
	})
}
