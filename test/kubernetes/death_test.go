package kubernetes

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// loop dials a closed Service from several places until it is stopped.
type loop struct {
	stop   chan struct{}
	wg     sync.WaitGroup
	mu     sync.Mutex
	dials  int
	errs   []error
	longer []time.Duration // dials that took more than 10 ms
}

func (a *app) loop(from ...*netlab.NS) *loop {
	l := &loop{stop: make(chan struct{})}
	for _, ns := range from {
		l.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-l.stop:
					return
				default:
				}
				start := time.Now()
				_, err := ask(ns, "tcp", a.at(i%2))
				took := time.Since(start)
				l.mu.Lock()
				l.dials++
				if err != nil {
					l.errs = append(l.errs, fmt.Errorf("%s: %w", ns.Name, err))
				} else if took > 10*time.Millisecond {
					l.longer = append(l.longer, took)
				}
				l.mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	return l
}

func (l *loop) rest(t *testing.T, what string) {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	t.Logf("%s: %d connections, %d failed, %d took more than 10 ms", what, l.dials, len(l.errs), len(l.longer))
	if l.dials < 20 {
		t.Errorf("%s: only %d connections were tried", what, l.dials)
	}
	for i, err := range l.errs {
		if i < 5 {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// With the cloud cut off: the agent is killed in a connect loop, Envoy follows
// it when it is back, and a node that dies silently costs no connection.
func TestDeathsWithoutCloud(t *testing.T) {
	leaks.None(t, c.Lab, leaks.Any)
	a := deploy(t, "deaths")
	a.closedEverywhere(t)
	n, pod := c.Nodes["a-1"], a.ns(t, "a-1")
	uses := func() error {
		for i := range a.svc.Spec.ClusterIPs {
			used := false
			for range 10 {
				got, err := ask(pod, "tcp", a.at(i))
				if err != nil {
					return err
				}
				used = used || a.nodeOf(got.Name) == "a-2"
			}
			if !used {
				return fmt.Errorf("a-2 is not used for %s", a.at(i))
			}
		}
		return nil
	}
	eventually(t, 20*time.Second, uses) // as readiness comes to every node by itself
	u := c.Lab.Unit("a")
	must(t, u.CutUplink())
	t.Cleanup(func() { must(t, u.HealUplink()) })

	l := a.loop(n.NS, pod)
	for range 3 {
		n.Agent.Signal(syscall.SIGKILL)
		time.Sleep(300 * time.Millisecond)
		must(t, n.StartAgent())
		time.Sleep(300 * time.Millisecond)
	}
	l.rest(t, "agent killed three times")

	dead := c.Lab.Node("a-2")
	must(t, dead.Cut())
	t.Cleanup(func() { must(t, dead.Heal()) })
	l = a.loop(n.NS, pod)
	time.Sleep(6 * time.Second)
	l.rest(t, "node dead")
	if len(l.longer) == 0 {
		t.Error("no connection tried the dead node's endpoints first")
	}
	must(t, dead.Heal())
	took := eventually(t, 50*time.Second, uses)
	t.Logf("the dead node's endpoints are used again %s after it was back", took)
}
