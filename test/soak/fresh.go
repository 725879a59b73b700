package soak

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	annotations "github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// Fresh ends a run: it stops who dials, takes everything of gridmesh's away
// from every node, starts it again with nothing on disk, and the controller, and
// compares. The nodes then are as they were, but fresh.
func (s *Soak) Fresh(ctx context.Context) error {
	s.dials.stop()
	if err := s.judge(); err != nil {
		return err
	}
	s.probes.stop() // a cleanup takes the guard away, as it should
	before, lines, err := s.rest(ctx)
	if err != nil {
		return err
	}
	if err := s.compareWatches(ctx, patience); err != nil {
		return err
	}
	if err := s.each(s.compareTemporary); err != nil {
		return err
	}
	controller, err := s.controllerUsage(ctx)
	if err != nil {
		return err
	}
	s.controller.Signal(syscall.SIGTERM)
	if err := s.startController(); err != nil {
		return err
	}
	if err := s.each(func(node string) (err error) { before[node].state, err = s.startAgain(ctx, node); return err }); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.compare(ctx, before, lines), s.compareStates(before), s.compareController(ctx, controller), s.judgeLogs()); err != nil {
		return err
	}
	s.tally.rounds, s.tally.pause = s.probes.sent()
	s.say("in all: %s", s.tally.String())
	return nil
}

// each does something to all nodes at once.
func (s *Soak) each(f func(node string) error) error {
	nodes := s.world.Nodes()
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() { errs[i] = f(node) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// dialAll uses everything that can be used on a node, so that Envoy has
// fetched it.
func (s *Soak) dialAll(node string) {
	var wg sync.WaitGroup
	for _, to := range s.dialled() {
		for _, ns := range []*netlab.NS{s.c.Nodes[node].NS, s.pods[node].ns} {
			wg.Go(func() { _, _ = edge.Ask(ns, "tcp", to, otherTimeout) })
		}
	}
	wg.Wait()
}

// startAgain gives a node a fresh start, and returns what its agent had kept.
func (s *Soak) startAgain(ctx context.Context, node string) (state []string, err error) {
	n := s.c.Nodes[node]
	n.Agent.Signal(syscall.SIGTERM) // it writes down what it has
	if state, err = readState(n); err != nil {
		return nil, &Violation{Judge: "files", Text: fmt.Sprintf("the state of %s cannot be read: %v", node, err)}
	}
	n.Envoy.Kill()
	n.DNS.Signal(syscall.SIGTERM)
	if out, err := n.Run("cleanup", "--files"); err != nil {
		return nil, &Violation{Judge: "cleanup", Text: fmt.Sprintf("on %s: %v: %s", node, err, out)}
	}
	if err := errors.Join(hasCapture(n.NS), hasFiles(n)); err != nil {
		return nil, &Violation{Judge: "cleanup", Text: fmt.Sprintf("on %s: %v", node, err)}
	}
	if err := errors.Join(s.start(n, "agent"), s.start(n, "envoy"), s.start(n, "dns")); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait.Patience)
	defer cancel()
	return state, n.WaitReady(ctx)
}

// hasFiles reports what is left on a node's disk.
func hasFiles(n *cluster.Node) error {
	left, err := os.ReadDir(stateDir(n.Name))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("files are left: %v", left)
	}
	return err
}

// compare waits until every node reads as before, and uses no less than before.
// The objects must be those of before, too: other ones lead to something else.
func (s *Soak) compare(ctx context.Context, before map[string]*ended, lines []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return wait.Until(ctx, func() error {
		wrong, err := s.unlike(ctx, before)
		if err != nil {
			return err
		}
		return errors.Join(violations(wrong), s.moved(ctx, lines))
	})
}

// moved reports what the API server has otherwise than it had.
func (s *Soak) moved(ctx context.Context, lines []string) error {
	o, err := s.objects(ctx)
	if err != nil {
		return err
	}
	if moved := exactly(reading{"objects": lines}, reading{"objects": o.lines()}); len(moved) > 0 {
		return violations(map[string][]string{"objects": moved})
	}
	return nil
}

// unlike are the differences of all nodes, by judge.
func (s *Soak) unlike(ctx context.Context, before map[string]*ended) (map[string][]string, error) {
	wrong := map[string][]string{}
	may, err := s.leftovers(ctx)
	if err != nil {
		return nil, err
	}
	for node, e := range before {
		s.dialAll(node)
		now, err := read(s.c.Nodes[node])
		if err != nil {
			return nil, err
		}
		for _, d := range differences(e.reading, now, may) {
			facet, _, _ := strings.Cut(d, ":")
			wrong[facet] = append(wrong[facet], node+": "+d)
		}
		used, err := usage(s.c.Nodes[node])
		if err != nil {
			return nil, err
		}
		for _, d := range grown(used, e.usage) {
			wrong["leaks"] = append(wrong["leaks"], node+": "+d)
		}
	}
	return wrong, nil
}

// compareStates stops every agent, so that it writes down what it has, and
// starts it again.
func (s *Soak) compareStates(before map[string]*ended) error {
	wrong := map[string][]string{}
	var mu sync.Mutex
	err := s.each(func(node string) error {
		n := s.c.Nodes[node]
		n.Agent.Signal(syscall.SIGTERM)
		now, err := readState(n)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			wrong["files"] = append(wrong["files"], fmt.Sprintf("the state of %s cannot be read: %v", node, err))
		} else if !slices.Equal(now, before[node].state) {
			for _, d := range differences(reading{"files": before[node].state}, reading{"files": now}, leftovers{}) {
				if strings.Contains(d, "a fresh start has not") {
					continue // what was used once is kept, though it leads nowhere now
				}
				wrong["files"] = append(wrong["files"], node+": state: "+d)
			}
		}
		return s.start(n, "agent")
	})
	return errors.Join(err, violations(wrong))
}

// leftovers are what an Envoy may hold for the Services that there are.
func (s *Soak) leftovers(ctx context.Context) (leftovers, error) {
	may := leftovers{dialled: s.dialled()}
	list, err := s.c.Kube.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return may, fmt.Errorf("list services: %w", err)
	}
	for _, svc := range list.Items {
		for _, p := range svc.Spec.Ports {
			ip, err := netip.ParseAddr(svc.Spec.ClusterIP)
			if err != nil {
				continue // without one
			}
			at := netip.AddrPortFrom(ip, uint16(p.Port))
			if p.Protocol == corev1.ProtocolUDP {
				may.bound = append(may.bound, at)
			} else if svc.Annotations[annotations.TopologyKeys] != "" { // others are dialled
				may.near = append(may.near, at)
			}
		}
	}
	return may, nil
}
