package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// unviolated hides that a cluster which does not come up violates anything.
type unviolated struct{ err error }

func (u unviolated) Error() string { return u.err.Error() }

// idle stops the controller, and edits a unit's child and then its grid.
func (s *Soak) idle(ctx context.Context) error {
	if err := s.setGrid(ctx, []string{"g0", "1"}); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return fmt.Errorf("before anything is planted: %w", unviolated{err})
	}
	s.controller.Signal(syscall.SIGSTOP)
	err := s.unattended(ctx)
	s.controller.Signal(syscall.SIGCONT)
	if err := errors.Join(s.deleteGrid(ctx, []string{"g0"}), s.settle(ctx)); err != nil {
		return fmt.Errorf("after what was planted: %w", unviolated{err})
	}
	return err
}

// unattended is what idle does meanwhile. That a unit is of another version is seen by
// that alone: all that reports of it is well.
func (s *Soak) unattended(ctx context.Context) error {
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"` + versionName + `","value":"planted"}]}]}}}}`
	if _, err := s.c.Kube.AppsV1().Deployments("default").Patch(ctx, "g0-a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return err
	}
	unsettled := func() error {
		if o, _ := s.objects(ctx); o != nil { // else it is looked again
			return o.settled(s.world)
		}
		return nil
	}
	if _, err := wait.For(ctx, "the unit of another version", func() error {
		if err := unsettled(); err == nil || !strings.Contains(err.Error(), "the Deployment g0-a is of planted") {
			return fmt.Errorf("it is not seen: %w", err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.setGrid(ctx, []string{"g0", "2"}); err != nil {
		return err
	}
	return becomes(ctx, "convergence", unsettled)
}

// plantForgotten has a client answered by two pods of a Service with affinity, a moment
// apart, until that is seen.
func (s *Soak) plantForgotten(ctx context.Context) error {
	node := s.twoPaths()[0]
	if err := s.deleteSlice(ctx, []string{"x6"}); err != nil { // it may be another Service's by now
		return err
	}
	defer func() {
		_ = s.deleteService(ctx, []string{"s0"})
		_ = s.deleteSlice(ctx, []string{"x6"})
	}()
	if err := errors.Join(s.setService(ctx, []string{"s0", "none", "Cluster"}), s.setAffinity(ctx, []string{"s0", "3h0m0s"}),
		s.setSlice(ctx, []string{"x6", planted + "," + other})); err != nil {
		return err
	}
	if _, err := wait.For(ctx, "the agent to know it", func() error { return s.upToDate(ctx, node) }); err != nil {
		return err
	}
	// What was told counts a grace later, and not while a slow node holds what it knew before.
	var found error
	_, err := wait.For(ctx, "a client that is answered by two pods", func() error {
		now := time.Now()
		d := dial{node: node, from: "node " + node, to: frontendOf("s0"), began: now, ended: now, answered: s.pods[planted].name}
		again := d
		again.answered = s.pods[other].name
		if found = s.judgeThese([]dial{d, again}, nil); found == nil {
			time.Sleep(time.Second)
			s.mu.Lock()
			defer s.mu.Unlock()
			return fmt.Errorf("nothing is seen: %s", s.judgedBy(&d))
		}
		return nil
	})
	return cmp.Or(found, err)
}

// plantObject edits something after it was read.
func (s *Soak) plantObject(ctx context.Context) error {
	o, err := s.objects(ctx)
	if err != nil {
		return err
	}
	if err := s.setService(ctx, []string{"s0", "unit", "Cluster"}); err != nil {
		return err
	}
	defer func() { _ = s.deleteService(ctx, []string{"s0"}) }()
	return s.moved(ctx, o.lines())
}

// plantCrash has a program panic, and looks once its end was seen.
func (s *Soak) plantCrash(ctx context.Context) error {
	p, err := edge.Start(s.c.Nodes[planted].NS, "planted", "/bin/sh", "-c", "echo panic: planted; exit 2")
	if err != nil {
		return err
	}
	if _, err := wait.For(ctx, "it to end", func() error {
		if p.Running() {
			return errors.New("it runs")
		}
		return nil
	}); err != nil {
		return err
	}
	s.over(p)
	return s.judgeLogs()
}

// plantOnController holds connections to the controller, from several addresses: of
// one it bears few.
func (s *Soak) plantOnController(ctx context.Context) error {
	before, err := s.controllerUsage(ctx)
	if err != nil {
		return err
	}
	for i := range 2 * spare {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i/10))}}
		var conn net.Conn
		if err := s.c.Lab.Cloud.Do(func() (err error) { conn, err = d.DialContext(ctx, "tcp", controllerMetrics); return err }); err != nil {
			return err
		}
		defer conn.Close()
	}
	return becomes(ctx, "leaks", func() error {
		now, _ := s.controllerUsage(ctx) // else it is looked again
		return violations(map[string][]string{"leaks": grown(before, now)})
	})
}

// plantWatchesOfGrids leaves watches open that a controller might.
func (s *Soak) plantWatchesOfGrids(ctx context.Context) error {
	before, err := s.controllerUsage(ctx)
	if err != nil {
		return err
	}
	for range 4 * spareWatches {
		w, err := s.c.Kube.AppsV1().ControllerRevisions("default").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer w.Stop()
	}
	return becomes(ctx, "leaks", func() error {
		now, _ := s.controllerUsage(ctx) // else it is looked again
		return violations(map[string][]string{"leaks": grown(before, now)})
	})
}

// plantTemporary leaves one file more than programs were killed.
func (s *Soak) plantTemporary(context.Context) error {
	for i := range s.killed[planted] + 1 {
		path := filepath.Join(stateDir(planted), fmt.Sprintf(".planted.tmp-%d", i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		defer os.Remove(path)
	}
	return s.compareTemporary(planted)
}
