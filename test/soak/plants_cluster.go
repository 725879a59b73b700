package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// unviolated hides that a cluster which does not come up violates anything.
type unviolated struct{ err error }

func (u unviolated) Error() string { return u.err.Error() }

// idle stops the controller and edits a grid.
func (s *Soak) idle(ctx context.Context) error {
	if err := s.setGrid(ctx, []string{"g0", "1"}); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return fmt.Errorf("before anything is planted: %w", unviolated{err})
	}
	s.controller.Signal(syscall.SIGSTOP)
	err := s.setGrid(ctx, []string{"g0", "2"})
	if err == nil {
		err = becomes(ctx, "convergence", func() error {
			if o, _ := s.objects(ctx); o != nil { // else it is looked again
				return o.settled(s.world)
			}
			return nil
		})
	}
	s.controller.Signal(syscall.SIGCONT)
	if err := errors.Join(s.deleteGrid(ctx, []string{"g0"}), s.settle(ctx)); err != nil {
		return fmt.Errorf("after what was planted: %w", unviolated{err})
	}
	return err
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
