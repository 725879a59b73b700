package gossip

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/test/healthsim/page"
	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

var figures = flag.String("figures", "", "rewrite memberlist's tables of this page (minutes)")

// run runs members in a bubble.
func run(t *testing.T, cfg sim.Config) (r sim.Report) {
	synctest.Test(t, func(*testing.T) {
		var u *Unit
		r = sim.RunLive(cfg, func(l *sim.Live, w *sim.World) sim.Protocol {
			u = New(l, w)
			return u
		})
		u.Close()
		time.Sleep(time.Minute) // what it left under way ends
	})
	return r
}

// Members find each other, find a death, and call nobody dead who is not.
func TestMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("it is not what the product runs")
	}
	r := run(t, sim.Config{Nodes: 15, Seed: 1, Faults: sim.MustFaults("crash"), Warm: 2 * time.Minute, Duration: 40 * time.Minute})
	if len(r.Detected) < 4 || r.Missed > 0 || r.Wrong > 0 || r.Quantile(1) > time.Minute || r.Sent < 1 {
		t.Errorf("%+v", r)
	}
}

// The tables' runs: a hundred node-hours of each fault.
const faultsFor = 2 * time.Hour

// TestFigures makes memberlist's tables of the page, and writes them.
func TestFigures(t *testing.T) {
	if *figures == "" {
		t.Skip("make healthsim runs it, with -figures")
	}
	if err := page.Check(*figures, "memberlist costs", "memberlist"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	costs := [][]string{{"nodes", "memberlist"}}
	for _, n := range []int{10, 20, 50, 100, 200} {
		r := run(t, sim.Config{Nodes: n, Seed: 1, Warm: page.Warm, Duration: page.CostFor})
		costs = append(costs, []string{fmt.Sprint(n), page.Cost(r)})
	}
	faults := make([][]string, 1+len(page.Rows))
	faults[0] = []string{"beside a death every 8 minutes", "declared dead, and alive", "that death"}
	t.Run("faults", func(t *testing.T) {
		for i, row := range page.Rows {
			t.Run(row.Title, func(t *testing.T) {
				t.Parallel()
				r := run(t, sim.Config{Nodes: page.Nodes, Seed: 1, Faults: row.Deaths(), Warm: page.Warm, Duration: faultsFor})
				mu.Lock()
				defer mu.Unlock()
				faults[1+i] = []string{row.Title, page.Wrong(r), page.Detected(r)}
			})
		}
	})
	if err := page.Rewrite(*figures, map[string]string{"memberlist costs": page.Table(costs), "memberlist": page.Table(faults)}); err != nil {
		t.Error(err)
	}
}
