package health

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/latest"
)

// Report implements peer.Node.
func (d *Daemon) Report(ctx context.Context, r vote.Reported) vote.Reply {
	reply, _ := query(ctx, d, func(now time.Time) vote.Reply {
		if !r.Up {
			latest.Put(d.quits, Quit{r.From, now})
		}
		delete(d.moved, r.From) // it speaks from its own address
		d.step(now, r)
		return d.machine.Reply(now)
	})
	return reply
}

// Probe implements peer.Node.
func (d *Daemon) Probe(ctx context.Context, nodes []string) []vote.Result {
	targets, err := query(ctx, d, func(now time.Time) []check.Target { return d.targets(now, nodes) })
	if err != nil {
		return nil
	}
	of := d.checker.Round(ctx, targets)
	results, _ := query(ctx, d, func(time.Time) []vote.Result { return d.machine.Answers(of) })
	return results
}

// localPatience is how long the loop is waited for: it does no I/O.
const localPatience = time.Second

// Local implements peer.Node.
func (d *Daemon) Local() map[string]bool {
	ctx, cancel := context.WithTimeout(context.Background(), localPatience)
	defer cancel()
	of, _ := query(ctx, d, func(time.Time) map[string]bool { return maps.Clone(d.local) })
	return of
}

// Dead are the nodes of the unit that are voted dead, as far as this node knows.
func (d *Daemon) Dead(ctx context.Context) ([]string, error) {
	return query(ctx, d, func(now time.Time) []string { return slices.Clone(d.machine.Dead(now)) })
}
