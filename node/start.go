package node

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
)

// Run takes the node into service until ctx ends, and returns when every
// goroutine has ended that waits for no disk that hangs. ErrUnfit says that this node is not to be served.
func (a *Agent) Run(ctx context.Context) error {
	s := &startup{Agent: a, group: &run.Group{}}
	defer s.unlock()
	if err := s.begin(ctx); err != nil {
		return errors.Join(err, s.undo())
	}
	for _, m := range a.members(s.loop) {
		s.group.Add(m.name, m.run)
	}
	if err := s.group.Run(ctx); err != nil {
		return errors.Join(err, s.undo())
	}
	a.log.Info("stopped; the rules stay in force until gridmesh-agent cleanup")
	return nil
}

// startup is what a start has done so far.
type startup struct {
	*Agent
	group   *run.Group
	sockets []string // that were opened
	loop    *loop    // nil before the guard is in force
	unlocks []func()
}

func (s *startup) unlock() {
	for _, unlock := range slices.Backward(s.unlocks) {
		unlock()
	}
}

// begin does all that comes before the loop. What can be judged without
// changing anything is judged first.
func (s *startup) begin(ctx context.Context) error {
	fresh, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := s.lockDir(); err != nil {
		return err
	}
	s.unlocks = append(s.unlocks, s.dir.Unlock)
	unlock, err := s.lockNetwork()
	if err != nil {
		return err
	}
	s.unlocks = append(s.unlocks, unlock)
	s.show(fresh)
	if s.sockets, err = s.open(s.group); err != nil {
		return err
	}
	s.loop, err = s.start(ctx)
	return err
}

// undo leaves the node as it was found, after a start that failed: a source that
// cannot begin ends the agent after the guard is in force. What a run before
// left in force stays, and so does what has served.
func (s *startup) undo() error {
	errs := []error{s.group.Close()}
	if s.loop != nil && s.loop.view != nil {
		return errors.Join(errs...)
	}
	for _, path := range s.sockets {
		errs = append(errs, run.RemoveUnix(path))
	}
	if s.loop != nil && s.loop.restored == nil && s.loop.unread.state == nil && !s.parts.Capture.Found() {
		errs = append(errs, s.parts.Capture.Remove())
	}
	return errors.Join(errs...)
}

// lockNetwork makes this agent the only one that writes the rules of its
// network. It comes before the listeners: of a second agent's ports and sockets
// the lock says whose they are.
func (a *Agent) lockNetwork() (unlock func(), err error) {
	if a.parts.LockNetwork == nil {
		return func() {}, nil
	}
	return a.parts.LockNetwork()
}

// start puts the guard in force. Nothing is asked that an API server may keep
// waiting, but where the operator wants to refuse, and then behind the guard.
func (a *Agent) start(ctx context.Context) (*loop, error) {
	notebook := statedir.Notebook{Dir: a.cfg.StateDir, Boot: statedir.BootID()}
	unread := a.readDisk(notebook)
	if a.parts.Remember != nil {
		a.parts.Remember(filepath.Join(a.cfg.StateDir, source.ManifestsFile), func() bool { return !a.dir.Others() }, func(err error) { a.dir.Took(statedir.KeptManifests, err) })
	}
	st := a.soonState(&unread)
	pods, err := a.knownPods(st)
	if err != nil {
		return nil, err
	}
	if err := a.keepRanges(ctx, st, unread.state == nil, pods); err != nil {
		return nil, err
	}
	if err := errors.Join(a.refusePods(ctx, pods), a.refuseServers(ctx, st)); err != nil {
		return nil, err
	}
	if err := a.comeBefore(); err != nil {
		return nil, err
	}
	if err := a.guard(pods, st); err != nil {
		return nil, err
	}
	if err := a.refusePolicies(ctx); err != nil {
		return nil, errors.Join(err, a.parts.Capture.Remove()) // as it was found
	}
	noted := a.soonNotes(&unread)
	l := newLoop(a, st, pods)
	l.proxy, _ = a.beside.Get()
	l.unread, l.begun = unread, a.clocks()
	l.clocksAt = l.begun
	l.uplink = outage.NewUplink(noted.Noted, notebook.Boot, l.clocksAt.Now)
	l.recorder = statedir.NewRecorder(notebook, noted.onDisk)
	known := l.uplink.Known
	a.known.Store(&known)
	heard := a.heardAt(l.clocksAt)
	a.heard.Store(&heard)
	return l, nil
}

// knownPods are the flags' pod CIDRs; else, until the Node says otherwise, those
// of the last good state, or of the rules that a run before left in force: a
// node that told pods from others goes on to, also without its state file.
func (a *Agent) knownPods(st *source.State) ([]netip.Prefix, error) {
	if !a.asksPods() {
		return a.cfg.PodCIDRs, nil
	}
	var pods []netip.Prefix
	if st != nil {
		pods = st.PodCIDRs
	}
	if len(pods) == 0 {
		earlier, err := a.parts.Capture.Earlier()
		if err != nil {
			return nil, err
		}
		pods = earlier.Pods
	}
	if len(pods) > 0 {
		a.podCIDRs.Publish(pods)
	}
	return pods, nil
}

// guard puts the rules in force, so that nothing leaves while the rest of the
// start waits.
func (a *Agent) guard(pods []netip.Prefix, st *source.State) error {
	if err := a.parts.Capture.SetPodCIDRs(pods); err != nil {
		return err
	}
	var known []netip.Prefix
	if st != nil {
		known = st.Snapshot.ServiceCIDRs
		a.parts.Capture.RememberIPs(capture.IPs{Said: st.NodeIPs, Homes: st.Homes})
	}
	earlier, err := a.parts.Capture.Earlier() // Install adds to it
	if err != nil {
		a.log.Warn("could not read what a run before guarded; far Services in ranges that are not in force are not served any more", obs.KeyErr, err)
	}
	a.held = earlier.Guard
	list := guard.Merge(a.ranges, known)
	if err := a.parts.Capture.Install(list); err != nil {
		return err
	}
	a.log.Info("guard in force", obs.KeyCIDRs, list, obs.KeyPods, a.parts.Capture.Pods())
	a.tune() // which a disk may keep waiting
	return nil
}

func (a *Agent) tune() {
	if err := a.parts.Capture.Tune(); err != nil {
		a.log.Warn("a pod that dials an endpoint itself, from a port that Envoy used in its name within a minute, will wait a second", obs.KeyErr, err)
	}
}
