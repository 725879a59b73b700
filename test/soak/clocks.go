package soak

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/soak/model"
)

// setClock sets the wall clock of gridmesh's programs and of Envoy on a node, or of
// the controller, for a time, and of those that start meanwhile. It excuses nothing.
// The kubelet's is let alone: Kubernetes takes a node whose leases were of later
// than now for silent, until that time comes.
func (s *Soak) setClock(_ context.Context, args []string) (func() error, error) {
	where := args[0]
	ahead, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, err
	}
	if !s.take("clock " + where) {
		return nil, errBusy
	}
	s.clocks[where] = ahead
	back := func() error {
		defer s.free("clock " + where)
		delete(s.clocks, where)
		return s.setClocks(where)
	}
	err = s.setClocks(where)
	if errors.Is(err, errors.ErrUnsupported) { // on this machine
		delete(s.clocks, where)
		s.free("clock " + where)
		return nil, &leftOut{err}
	}
	return back, err
}

// setClocks sets the clocks of all programs of a place as they are to be.
func (s *Soak) setClocks(where string) error {
	list := []*edge.Process{s.controller}
	if n, ok := s.c.Nodes[where]; ok {
		list = []*edge.Process{n.Agent, n.Envoy, n.DNS}
	}
	var errs []error
	for _, p := range list {
		if !p.Running() {
			continue
		}
		if err := p.SetClock(s.clocks[where]); !errors.Is(err, edge.ErrPaused) { // else resume sets it
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// inTime gives a program that was just started the clock of its place: it may look
// at the machine's before, as on a node whose time server answers late.
func (s *Soak) inTime(where string, p *edge.Process) error {
	if s.clocks[where] == 0 {
		return nil
	}
	return p.SetClock(s.clocks[where])
}

// resume lets stopped programs of a place go on, with its clock where they were stopped
// before they had one.
func (s *Soak) resume(where string, list ...*edge.Process) error {
	var errs []error
	for _, p := range list {
		p.Signal(syscall.SIGCONT)
	}
	for _, p := range list {
		if p.Running() {
			errs = append(errs, s.inTime(where, p))
		}
	}
	return errors.Join(errs...)
}

// vouchFor is how old a last contact may be, or how far still to come, for which an
// agent takes what is on disk for current.
const vouchFor = 5 * time.Minute

// silence is what an agent takes for an outage, and firstWord how long one that begins takes it for
// its own absence.
const (
	silence   = 20 * time.Second
	firstWord = 5 * time.Second
)

// unvouched notes that an agent starts by a clock, the node's or the machine's, for
// which its last contact was not just before. It takes nothing on disk for current
// then, and if an outage begins before it has heard of the cloud itself, believes
// what that says of its unit afterwards.
func (s *Soak) unvouched(n *cluster.Node) {
	info, err := os.Stat(filepath.Join(stateDir(n.Name), "contact"))
	if err != nil || recorded(n.Name) {
		return
	}
	age := time.Since(info.ModTime())
	switch {
	case age.Abs() >= vouchFor || (age+s.clocks[n.Name]).Abs() >= vouchFor:
		s.believes(n.Name)
	case age >= silence:
		s.begun[n.Name] = time.Now()
		if s.healed[s.world.UnitOf(n.Name)].After(info.ModTime()) {
			s.believes(n.Name)
		}
	}
}

// heals notes that units have the cloud again. An agent that began just before, after a silence that
// nobody on its node had noticed, takes that for its own absence (node/hold/README.md).
func (s *Soak) heals(units ...string) {
	for _, unit := range units {
		s.healed[unit] = time.Now()
		for _, node := range s.unit(unit) {
			if time.Since(s.begun[node]) < firstWord {
				s.believes(node)
			}
		}
	}
}

// believes notes that an agent takes what the cloud says of its unit for true.
func (s *Soak) believes(node string) {
	s.untilCalm = append(s.untilCalm, s.trouble(model.Broken, node))
}
