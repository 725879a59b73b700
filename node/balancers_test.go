package node

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// exposed is a Service that load balancers ask for at a port.
func exposed(port int, endpoints map[string]string) *nodetest.Objects {
	o := nodetest.NewObjects()
	o.Plain("web", "10.96.0.10", endpoints)
	o.Builder().SetService(&topology.Service{
		Key: topology.ObjectKey{Namespace: "default", Name: "web"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Ports:    []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80, NodePort: 30080}},
		Exposure: &topology.Exposure{Local: true, HealthCheckNodePort: uint16(port), LoadBalancers: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
	})
	return o
}

// Load balancers follow the endpoints of this node, and are told where the rules of it
// are not as they should be. A port that somebody else has is a problem until he is gone.
func TestLoadBalancersAreAnswered(t *testing.T) {
	r := newRig(t)
	r.sockets(t)
	r.withKernelPath(topology.DatapathKernel)
	port := testkit.FreePort(t)
	other, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	must(t, err)
	defer other.Close()
	stop := r.run(t, r.parts())
	told := func(want int, weight string) {
		t.Helper()
		eventually(t, fmt.Sprintf("load balancers are told %d, weight %s", want, weight), func() bool {
			resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", port))
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			return resp.StatusCode == want && resp.Header.Get("X-Load-Balancing-Endpoint-Weight") == weight
		})
	}
	problems := func() string {
		got, err := report.Ask(t.Context(), r.cfg.StatusSocket)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(got.Problems)
	}
	r.source.Publish(exposed(port, map[string]string{"a-1": "10.244.1.5", "a-2": "10.244.2.5"}).Snapshot())
	eventually(t, "the status says that the port is taken", func() bool {
		return strings.Contains(problems(), "service default/web: spec.healthCheckNodePort: load balancers get no answer on this node")
	})
	_ = other.Close()
	told(http.StatusOK, "1")
	eventually(t, "the problem is over", func() bool { return problems() == "[]" })
	r.source.Publish(exposed(port, map[string]string{"a-2": "10.244.2.5"}).Snapshot())
	told(http.StatusServiceUnavailable, "0")
	r.source.Publish(exposed(port, map[string]string{"a-1": "10.244.1.5", "b-1": "10.244.9.5"}).Snapshot())
	told(http.StatusOK, "1")
	must(t, stop())
	if _, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		t.Error("somebody answers after the end")
	}
}

// A Service that asks for a port of Envoy's does not get it, Envoy there or not: what is
// captured would come to it.
func TestLoadBalancersAreNotAnsweredAtEnvoysPorts(t *testing.T) {
	r := newRig(t)
	r.sockets(t)
	r.withKernelPath(topology.DatapathKernel)
	port := testkit.FreePort(t)
	r.cfg.Render.Ports.Base = uint16(port - 8)
	stop := r.run(t, r.parts())
	defer func() { must(t, stop()) }()
	r.source.Publish(exposed(port, map[string]string{"a-1": "10.244.1.5"}).Snapshot())
	eventually(t, "the status says whose it is", func() bool {
		got, err := report.Ask(t.Context(), r.cfg.StatusSocket)
		return err == nil && strings.Contains(fmt.Sprint(got.Problems), fmt.Sprintf("service default/web: spec.healthCheckNodePort: %d is Envoy's (--listen-port-base) on this node", port))
	})
	if _, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		t.Error("somebody answers")
	}
}

// The ports of the agent's and Envoy's listeners are their own, by what the flags say.
func TestOwnPorts(t *testing.T) {
	c := Default()
	c.MetricsAddress, c.Render.Ports.Base = "[fd00::1]:http", 16001
	own := c.ownPorts()
	if len(own) != 11 || own[10256] != "the agent's (--healthz-bind-address)" || own[80] != "the agent's (--metrics-bind-address)" ||
		own[16001] != "Envoy's (--listen-port-base)" || own[16009] == "" || own[16010] != "" {
		t.Errorf("%v", own)
	}
	if c.HealthzAddress = ""; len(c.ownPorts()) != 10 {
		t.Errorf("without health: %v", c.ownPorts())
	}
}

// Without a kernel path nobody serves what a load balancer sends: it is told nothing.
func TestEnvoyAloneAnswersNoLoadBalancer(t *testing.T) {
	r := newRig(t)
	r.sockets(t)
	stop := r.run(t, r.parts())
	defer func() { must(t, stop()) }()
	port := testkit.FreePort(t)
	r.source.Publish(exposed(port, map[string]string{"a-1": "10.244.1.5"}).Snapshot())
	eventually(t, "it serves", func() bool {
		got, err := report.Ask(t.Context(), r.cfg.StatusSocket)
		return err == nil && got.Source == report.Live
	})
	if _, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		t.Error("somebody answers")
	}
}
