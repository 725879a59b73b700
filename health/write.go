package health

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// Annotations writes verdicts as annotations of Nodes.
type Annotations struct {
	Client *kube.Client
	// Mirror writes public SuperEdge's annotation besides.
	Mirror bool
}

// Annotate implements Cloud.
func (a Annotations) Annotate(ctx context.Context, v Verdict) error {
	verdict := strconv.FormatBool(v.Well)
	set := map[string]*string{names.NodeHealth: &verdict, names.Evidence: &v.Evidence}
	if a.Mirror {
		set[names.NodeUnhealthy] = nil
		if yes := "yes"; !v.Well {
			set[names.NodeUnhealthy] = &yes
		}
	}
	return typed.Annotate(ctx, a.Client, v.Node, v.UID, set)
}

const (
	// mostWriting is how many verdicts are written at once: where a whole unit is cut there are
	// many, and an API server that just came back has more to do.
	mostWriting = 8
	// writeAgain is after how long what was not written is tried again, and twice as long after
	// each time more: the cloud may take the node for lost meanwhile.
	writeAgain = 2 * time.Second
)

// writes are the verdicts that are to be written, one of each node. The loop owns them.
type writes struct {
	wait map[string]unwritten // the newest
	now  map[string]bool      // under way
	lost map[string]bool      // to the cloud, and one of these was written since
}

type unwritten struct {
	Verdict
	at    time.Time // when it was decided
	news  bool      // the cloud has another verdict, or none, or does not know that it is cut, or it is lost since
	due   time.Time
	tries int // that failed
}

// due is when the next is to be written; zero where none is, or where some are under way, which
// wake the loop.
func (w *writes) due() (at time.Time) {
	for node, u := range w.wait {
		if !w.now[node] && (at.IsZero() || u.due.Before(at)) {
			at = u.due
		}
	}
	if len(w.now) >= mostWriting {
		return time.Time{}
	}
	return at
}

// before reports whether a verdict is to be written before another one: news first, for a node that was cut
// just now is lost to the cloud soon, and what is there already counts for a while; then who waits longest.
func (u *unwritten) before(v *unwritten) bool {
	if u.news != v.news {
		return u.news
	}
	return cmp.Or(u.due.Compare(v.due), cmp.Compare(u.Node, v.Node)) < 0
}

// take takes the first that is due, if any is.
func (w *writes) take(now time.Time) (first unwritten, ok bool) {
	for node, u := range w.wait {
		if !w.now[node] && !u.due.After(now) && (!ok || u.before(&first)) {
			first, ok = u, true
		}
	}
	delete(w.wait, first.Node)
	return first, ok
}

// write has a verdict written. It is newer than what was to be written of the node.
func (d *Daemon) write(now time.Time, w vote.Write) {
	v := Verdict{Node: w.Node, UID: w.UID, Well: w.Verdict == vote.Yes}
	v.Evidence = evidence.Evidence{
		Yes: w.Proof.Yes, No: w.Proof.No, Of: w.Proof.Of, Exact: w.Proof.Exact, Cut: w.Cut, View: w.View, By: d.cfg.Vote.Self, At: now,
	}.String()
	told := d.told[v.Node]
	news := vote.AnswerOf(told.Verdict) != w.Verdict || told.Cut != w.Cut || told.Lost && !d.writes.lost[v.Node]
	d.writes.wait[v.Node] = unwritten{Verdict: v, at: now, due: now, news: news}
}

// isMember reports whether a Node of a name and UID is in the unit.
func (d *Daemon) isMember(name, uid string) bool {
	i, ok := slices.BinarySearchFunc(d.unit.Members, name, func(m Member, name string) int { return cmp.Compare(m.Name, name) })
	return ok && d.unit.Members[i].UID == uid
}

// flush writes what is due. What is old the unit votes on anew, and who does not hold the Lease any
// more writes nothing.
func (d *Daemon) flush(now time.Time) {
	holds := d.machine.Holds(now)
	maps.DeleteFunc(d.writes.wait, func(_ string, u unwritten) bool {
		return !holds || now.Sub(u.at) >= d.cfg.Vote.Renew || !d.isMember(u.Node, u.UID)
	})
	for len(d.writes.now) < mostWriting {
		u, ok := d.writes.take(now)
		if !ok {
			return
		}
		d.writes.now[u.Node] = true
		d.work.Go(func() {
			ctx, cancel := context.WithTimeout(d.ctx, d.cfg.Vote.AskFor)
			err := d.cloud.Annotate(ctx, u.Verdict)
			cancel()
			d.metrics.sent("verdict", err)
			d.later(d.ctx, func(now time.Time) { d.written(now, u, err) })
		})
	}
}

// written tries again what was not, where nothing newer waits, and there still is such a Node. A conflict may
// be one with who writes the Node often; of another UID the list tells.
func (d *Daemon) written(now time.Time, u unwritten, err error) {
	delete(d.writes.now, u.Node)
	if err == nil && d.told[u.Node].Lost {
		d.writes.lost[u.Node] = true
	}
	if err != nil && u.tries == 0 {
		d.cfg.Log.Warn("a verdict was not written; it is tried again, while it counts", obs.KeyNode, u.Node, obs.KeyErr, err)
	}
	if _, newer := d.writes.wait[u.Node]; err != nil && !newer && !apierrors.IsNotFound(err) {
		u.due = now.Add(writeAgain << u.tries)
		u.tries++
		d.writes.wait[u.Node] = u
	}
	d.flush(now)
}
