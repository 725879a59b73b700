package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/health/told"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// hearEvery is how often it is looked whether the node's health daemon has said something.
const hearEvery = time.Second

// followDead keeps reading whom the vote of the unit calls dead. What cannot be read, or is
// no word of this node's daemon, leaves the last word to its age.
func (a *Agent) followDead(ctx context.Context) error {
	var ear told.Ear
	var fault quiet.Change
	for {
		w, err := a.readDead()
		if err == nil && ear.Hear(time.Now(), w) {
			a.verdicts.Publish(ear.Heard())
			fill(a.paths)
		}
		if !errors.Is(err, fs.ErrNotExist) && fault.To(err) { // without one nobody votes here
			a.log.Warn("whom the vote of the unit calls dead is not heard", obs.KeyErr, err)
		}
		if !run.Pause(ctx, hearEvery) {
			return nil
		}
	}
}

// errOthers is of a file that others than the health daemon may have written.
var errOthers = errors.New("may be written by others than root and this agent's user, and is not believed")

func (a *Agent) readDead() (w told.Word, err error) {
	path := a.cfg.DeadNodesFile
	data, info, err := atomicfile.Read(path, told.MaxSize)
	if err != nil {
		return w, fmt.Errorf("--dead-nodes-file: %w", err)
	}
	if of, known := info.Sys().(*syscall.Stat_t); !known || of.Uid != 0 && int(of.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return w, fmt.Errorf("--dead-nodes-file: %s %w", path, errOthers)
	}
	w, err = told.Decode(data)
	if err == nil && w.Node != a.cfg.Node {
		err = fmt.Errorf("%w of this node's: it is %.64q's", told.ErrWord, w.Node)
	}
	if err != nil {
		return w, fmt.Errorf("--dead-nodes-file: %s %w", path, err)
	}
	return w, nil
}

// deadNow are the nodes of a snapshot that count as dead: by a word that is not too old, and
// only where the cloud says nothing newer. The last good state is without: what Envoy and the
// kernel hold it may not change, and so no verdict could be withdrawn.
func (l *loop) deadNow(snap *topology.Snapshot, now time.Time) (names []string) {
	if !l.live || l.parts.Cluster == nil {
		return nil
	}
	heard, _ := l.verdicts.Get()
	for _, d := range heard.At(now) {
		if _, known := snap.Nodes.Get(d.Node); known && l.unheard(d.Node) {
			names = append(names, d.Node)
		}
	}
	slices.Sort(names)
	return names
}

// unheard reports whether the cloud cannot know how a node is: it is away, or is back and has
// not heard the node since. Then what it says of the node's endpoints is held, as before the
// outage, and the vote says which of those that are held come last.
func (l *loop) unheard(node string) bool {
	if l.uplink.Away && !l.uplink.Back {
		return true
	}
	h := l.healing.hold
	return h != nil && !h.HasReported(node)
}

// withDead is a snapshot as it is seen: with who counts as dead.
func (l *loop) withDead(snap *topology.Snapshot) *topology.Snapshot {
	was := l.dead
	l.dead = l.deadNow(snap, time.Now())
	l.wantReports()
	l.metrics.dead.Set(float64(len(l.dead)))
	switch {
	case slices.Equal(was, l.dead):
	case len(l.dead) > 0:
		l.said.dead.Say(l.log.Warn, "nodes are dead by the vote of their unit, and the cloud has not heard them since: endpoints on others come first", obs.KeyWhich, report.Few(l.dead))
	default:
		l.said.dead.Say(l.log.Info, "no node counts as dead by the vote of its unit any more")
	}
	return snap.WithDead(l.dead)
}

// takeDead acts where others count as dead than did.
func (l *loop) takeDead() {
	if l.snap != nil && !slices.Equal(l.deadNow(l.snap, time.Now()), l.dead) {
		l.apply(l.snap)
	}
}
