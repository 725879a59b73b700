package health

import (
	"context"
	"errors"
	"time"

	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// next is when the machine wants to be woken, or something is to be written.
func (d *Daemon) next() time.Time {
	if d.wakeAt.IsZero() {
		return time.Now()
	}
	if at := d.writes.due(); !at.IsZero() && at.Before(d.wakeAt) {
		return at
	}
	return d.wakeAt
}

// carry carries out what the machine wants; nothing of it waits here.
func (d *Daemon) carry(now time.Time, out vote.Effects) {
	if len(out.Check) > 0 {
		d.check(out.Check, func(ctx context.Context, of map[string]bool) {
			d.later(ctx, func(now time.Time) {
				d.local = of
				d.step(now, vote.Checked{Of: of})
			})
		})
	}
	report := vote.Reported{From: d.cfg.Vote.Self, Results: out.Results, Up: d.up, Hears: out.Hears, Holds: out.Holds}
	for _, to := range out.Report {
		d.work.Go(func() {
			reply, err := d.exchange.Report(d.ctx, to, report)
			d.metrics.sent("report", err)
			if errors.Is(err, peer.ErrView) || errors.Is(err, peer.ErrNoKey) || errors.Is(err, peer.ErrNoUnit) || errors.Is(err, peer.ErrNotSent) {
				return // of the other one it says nothing
			}
			d.tell(d.ctx, vote.Delivered{To: to, OK: err == nil, Reply: reply})
		})
	}
	for _, q := range out.Ask {
		d.put(q)
	}
	for _, w := range out.Write {
		d.write(now, w)
	}
	for _, n := range out.Tell {
		d.note(now, n)
	}
}

// later has the loop do something, unless it ends.
func (d *Daemon) later(ctx context.Context, f func(now time.Time)) {
	select {
	case d.do <- f:
	case <-ctx.Done():
	}
}

// targets are nodes as they are checked. It is the loop's.
func (d *Daemon) targets(now time.Time, names []string) []check.Target {
	list := make([]check.Target, 0, len(names))
	for _, name := range names {
		if name != d.cfg.Vote.Self {
			list = append(list, d.place(now, name))
		}
	}
	return list
}

// check has nodes checked, and done called with what came of it.
func (d *Daemon) check(names []string, done func(ctx context.Context, of map[string]bool)) {
	targets := d.targets(time.Now(), names)
	d.work.Go(func() { done(d.ctx, d.checker.Round(d.ctx, targets)) })
}

// put puts a question to the whole unit, itself among it.
func (d *Daemon) put(q vote.Question) {
	d.check(q.Targets, func(ctx context.Context, of map[string]bool) {
		d.later(ctx, func(now time.Time) {
			d.step(now, vote.Answered{Question: q.Number, From: d.cfg.Vote.Self, Results: d.machine.Answers(of)})
		})
	})
	for _, m := range d.unit.Members {
		if m.Name == d.cfg.Vote.Self {
			continue
		}
		d.work.Go(func() {
			results, err := d.exchange.Ask(d.ctx, m.Name, q.Targets)
			d.metrics.sent("question", err)
			d.tell(d.ctx, vote.Answered{Question: q.Number, From: m.Name, Results: results, Failed: err != nil, Unsent: errors.Is(err, peer.ErrNotSent)})
		})
	}
}

// sayEvery is how often the same is said of a node.
const sayEvery = 10 * time.Minute

// note says what people are to hear about, now and then.
func (d *Daemon) note(now time.Time, n vote.Note) {
	for old, at := range d.notes {
		if now.Sub(at) >= sayEvery {
			delete(d.notes, old)
		}
	}
	if _, said := d.notes[n]; said {
		return
	}
	d.notes[n] = now
	d.cfg.Log.Warn("nothing was decided about a node", obs.KeyNode, n.Node, obs.KeyWhy, string(n.What))
}
