package node

import (
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/node/healthport"
	"github.com/gridmesh/gridmesh/topology"
)

// balancers is what load balancers are told at the ports of Services. They are
// answered where the kernel serves what they send.
type balancers struct {
	index  healthport.Index
	failed []topology.Problem // of ports that are taken, and tried again
}

func (b *balancers) problems() []topology.Problem { return slices.Concat(b.index.Problems(), b.failed) }

// answerBalancers has load balancers answered by the view.
func (l *loop) answerBalancers() {
	if b := &l.balancers; l.ports != nil && b.index.Next(l.view) {
		b.failed = l.ports.Serve(b.index.Places())
	}
}

// answerAgain tries ports that were taken, and shows where that changed anything.
func (l *loop) answerAgain() {
	was := l.balancers.failed
	if len(was) == 0 {
		return
	}
	if l.balancers.failed = l.ports.Again(); !slices.Equal(was, l.balancers.failed) {
		l.publish()
	}
}

// healthPorts answers load balancers; nil without a kernel path.
func (a *Agent) healthPorts() *healthport.Servers {
	if a.cfg.Datapath == topology.DatapathNone {
		return nil
	}
	return healthport.New(func() bool { return a.health(time.Now()).Healthy }, a.cfg.NodePortAddresses, a.log)
}
