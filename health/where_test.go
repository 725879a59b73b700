package health

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/vote"
)

// Of an address that two nodes have nothing is concluded. A node that speaks from another address is
// looked for there, too, while it speaks, unless that is another one's, or it speaks from its own.
func TestWhereNodesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a, ended := newAlone(t, ctx)
		members := []Member{memberAt("a-1", "192.0.2.1"), memberAt("a-2", "192.0.2.2"), memberAt("a-3", "192.0.2.3"), memberAt("a-4", "192.0.2.3"), memberAt("a-5", "192.0.2.3", "192.0.2.5")}
		a.SetUnit(ctx, Unit{Name: "a", Members: members})
		all := func(what, spoke string, want ...string) {
			t.Helper()
			targets, err := query(ctx, a.Daemon, func(now time.Time) []check.Target {
				return a.targets(now, []string{"a-2", "a-3", "a-4", "a-5"})
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, target := range targets {
				got = append(got, target.Addr.String())
			}
			if !slices.Equal(got, want) || targets[0].Spoke.String() != spoke {
				t.Errorf("%s: %q, want %q; a-2 spoke from %s, want %s", what, got, want, targets[0].Spoke, spoke)
			}
		}
		const none = "invalid IP"
		all("at first", none, "192.0.2.2", none, none, "192.0.2.5")
		if n := a.log.Count("two nodes have one address"); n != 1 {
			t.Errorf("told %d times: %s", n, a.log.String())
		}
		elsewhere := netip.MustParseAddr("192.0.2.9")
		a.Elsewhere(ctx, "a-2", elsewhere)
		all("it spoke", "192.0.2.9", "192.0.2.2", none, none, "192.0.2.5")
		time.Sleep(elsewhereFor + time.Second)
		all("long ago", none, "192.0.2.2", none, none, "192.0.2.5")
		a.Elsewhere(ctx, "a-2", elsewhere)
		a.Report(ctx, vote.Reported{From: "a-2", Up: true})
		all("it reports from its own", none, "192.0.2.2", none, none, "192.0.2.5")
		a.Elsewhere(ctx, "a-2", elsewhere)
		members = slices.Clone(members)
		members[4] = memberAt("a-5", elsewhere.String(), "192.0.2.5") // it has that now
		a.SetUnit(ctx, Unit{Name: "a", Members: members})
		all("that is another one's", none, "192.0.2.2", none, none, "192.0.2.9")
		a.Elsewhere(ctx, "a-2", elsewhere) // by the list of before
		all("that was another one's already", none, "192.0.2.2", none, none, "192.0.2.9")
		members = slices.Clone(members)
		members[1] = memberAt("a-2", "192.0.2.2", "192.0.2.10")
		a.SetUnit(ctx, Unit{Name: "a", Members: members})
		a.Elsewhere(ctx, "a-2", netip.MustParseAddr("192.0.2.10"))
		all("that is its own by now", none, "192.0.2.2", none, none, "192.0.2.9")
		a.SetUnit(ctx, Unit{Name: "a", Members: members[2:]})
		a.Elsewhere(ctx, "a-2", netip.MustParseAddr("192.0.2.11"))
		if moved, err := query(ctx, a.Daemon, func(time.Time) int { return len(a.moved) }); err != nil || moved != 0 {
			t.Errorf("of who is in the unit no more it is known where it spoke: %d, %v", moved, err)
		}
		cancel()
		<-ended
	})
}

// atOwn sees nodes at their own addresses alone, as one sees those behind a router.
type atOwn struct {
	end
	own map[string]netip.Addr
}

func (o atOwn) Round(_ context.Context, targets []check.Target) map[string]bool {
	of := map[string]bool{}
	for _, t := range targets {
		of[t.Node] = t.Addr == o.own[t.Node]
	}
	return of
}

// What a node signed comes through a router that gives it an address of its own, at which no node
// is: others see it where it is, and say so when they are asked.
func TestANodeSpeaksThroughARouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		members := []Member{memberAt("a-1", "192.0.2.1"), memberAt("a-2", "192.0.2.2"), memberAt("a-3", "192.0.2.3")}
		c := atOwn{end{&site{dead: map[string]bool{"a-1": true}, verdicts: map[string]Verdict{}}, "a-1"}, map[string]netip.Addr{}}
		for _, m := range members {
			c.own[m.Name] = m.Addrs[0]
		}
		d, err := New(Config{vote.Default("a-1"), slog.New(slog.DiscardHandler), nil}, c, c, NewMetrics(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		d.SetExchange(c)
		ended := make(chan struct{})
		go func() { defer close(ended); _ = d.Run(ctx) }()
		d.SetUnit(ctx, Unit{Name: "a", Members: members})
		d.Elsewhere(ctx, "a-3", netip.MustParseAddr("198.51.100.1"))
		want := []vote.Result{{Node: "a-2", Answer: vote.Yes}, {Node: "a-3", Answer: vote.Yes}}
		if got := d.Probe(ctx, []string{"a-2", "a-3"}); !slices.Equal(got, want) {
			t.Errorf("it says %v, want %v", got, want)
		}
		cancel()
		<-ended
	})
}
