package capture

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// A Service may have the API server's address as one of its external ones, and takes it from
// everybody on the node but the agent, which is to hear when it has it no more.
func TestTheAgentsOwnConnectionsAreServedByNobody(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	l.serve(t, "b", l.b)
	must(t, l.outside.Do(func() error {
		server, err := net.Listen("tcp", "192.0.2.9:6443")
		if err != nil {
			return err
		}
		t.Cleanup(func() { server.Close() })
		go func() {
			for {
				conn, err := server.Accept()
				if err != nil {
					return
				}
				go answer(conn, "server")
			}
		}()
		return nil
	}))
	l.put(t, plan.KernelFrontend{Frontend: tcp("192.0.2.9:6443"), Tiers: tiers(false, "b"), Outside: &plan.KernelOutside{}})
	if name, _ := once(t, l.node, "", "192.0.2.9:6443"); name != "b" {
		t.Errorf("everybody is answered by %s, want b: who may write Services may take that address", name)
	}
	must(t, l.node.Do(func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		conn, err := (&net.Dialer{Control: OwnSockets(cfg)}).DialContext(ctx, "tcp", "192.0.2.9:6443")
		if err != nil {
			return err
		}
		defer conn.Close()
		if got := ask(conn, 5*time.Second); got != "server "+conn.LocalAddr().String() {
			t.Errorf("the agent is answered by %q", got)
		}
		return nil
	}))
}
