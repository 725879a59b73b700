package node

import (
	"net"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/node/healthport"
	"github.com/gridmesh/gridmesh/topology"
)

// balancers is what load balancers are told at the ports of Services. They are
// answered where the kernel serves what they send.
type balancers struct {
	index  *healthport.Index
	failed []topology.Problem // of ports that are taken, and tried again
}

func newBalancers(cfg Config) balancers {
	return balancers{index: healthport.NewIndex(cfg.ownPorts(), healthport.BoundsHere())}
}

func (b *balancers) problems() []topology.Problem { return slices.Concat(b.index.Problems(), b.failed) }

// answerBalancers has load balancers answered by the view.
func (l *loop) answerBalancers() {
	if b := &l.balancers; l.ports != nil && b.index.Next(l.view) {
		b.failed = l.ports.Serve(b.index.Places())
	}
}

// answerAgain tries ports that were taken or lost, and shows where that changed anything.
func (l *loop) answerAgain() {
	if l.ports == nil {
		return
	}
	was := l.balancers.failed
	if l.balancers.failed = l.ports.Again(); !slices.Equal(was, l.balancers.failed) {
		l.publish()
	}
}

// healthPorts answers load balancers; nil without a kernel path.
func (a *Agent) healthPorts(bounds healthport.Bounds) *healthport.Servers {
	if a.cfg.Datapath == topology.DatapathNone {
		return nil
	}
	if why := bounds.Lowered(); why != "" {
		a.log.Warn("load balancers are answered at fewer ports than there might be", obs.KeyWhy, why)
	}
	return healthport.New(func() bool { return a.forBalancers(time.Now()).Healthy }, a.cfg.NodePortAddresses, bounds, a.log)
}

// ownPorts are those of this node at which the agent and Envoy listen, and whose they
// are. While one of them is away a Service could take its port, and what is captured
// would come to whoever has Envoy's.
func (c Config) ownPorts() map[uint16]string {
	own := map[uint16]string{}
	for _, port := range c.Render.Ports.All() {
		own[port] = "Envoy's (--listen-port-base)"
	}
	for flag, address := range map[string]string{"--healthz-bind-address": c.HealthzAddress, "--metrics-bind-address": c.MetricsAddress} {
		if _, port, err := net.SplitHostPort(address); err == nil {
			if n, err := net.LookupPort("tcp", port); err == nil {
				own[uint16(n)] = "the agent's (" + flag + ")"
			}
		}
	}
	return own
}
