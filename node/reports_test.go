package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
)

// rows is an API server that notes when rows of questions begin.
type rows struct {
	api
	mu    sync.Mutex
	first []time.Time
}

func (c *rows) NodeReport(ctx context.Context, node string, first uint64) (uint64, error) {
	if first == 0 {
		c.mu.Lock()
		c.first = append(c.first, time.Now())
		c.mu.Unlock()
	}
	return c.api.NodeReport(ctx, node, first)
}

// A cloud that was away comes back to all agents at once, and its first questions,
// which ask its store, do not come at once: not where a second outage cuts a hold
// short either.
func TestFirstQuestionsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents, node = 200, "a-2"
		cloud := &rows{api: api{&nodetest.API{}}}
		ctx, cancel := context.WithCancel(t.Context())
		var all []*reports
		var ended sync.WaitGroup
		for range agents {
			a := &Agent{reports: newReports(), parts: Parts{Cluster: cloud}}
			all = append(all, a.reports)
			ended.Go(func() { _ = a.askReports(ctx) })
		}
		for _, when := range []string{"the first outage", "one that cuts its hold short"} {
			began := time.Now()
			for _, r := range all {
				r.begin()
				r.want([]string{node}, 1)
			}
			after(askAfter + askWithin + 2*askPause)
			seconds := map[int]int{}
			for _, at := range cloud.first {
				seconds[int(at.Sub(began)/time.Second)]++
			}
			if len(cloud.first) != agents {
				t.Errorf("%s: %d first questions of %d agents", when, len(cloud.first), agents)
			}
			for second, n := range seconds {
				if n > agents/5 { // a fifteenth each, by chance more
					t.Errorf("%s: %d first questions in second %d", when, n, second)
				}
			}
			cloud.first = nil
		}
		cancel()
		ended.Wait()
	})
}
