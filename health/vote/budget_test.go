package vote

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// vote has a round pass in which some do not answer, and the unit say of what it is asked that these
// are dead; the cloud takes what is written.
func (u *unit) vote(dead []string) {
	say := func(_, of string) []Result {
		if slices.Contains(dead, of) {
			return []Result{{of, No}}
		}
		return []Result{{of, Yes}}
	}
	take := func(out Effects) {
		for _, w := range out.Write {
			u.step(Cloud{w.Node, u.cloud[w.Node].Ready, w.Verdict, false, time.Time{}})
		}
	}
	out := u.round(dead, say)
	take(out)
	for len(out.Ask) > 0 {
		var next []Question
		for _, q := range out.Ask {
			for _, from := range u.view.Names() {
				e := Answered{Question: q.Number, From: from, Failed: slices.Contains(dead, from)}
				for _, of := range q.Targets {
					if !e.Failed && of != from {
						e.Results = append(e.Results, say(from, of)...)
					}
				}
				o := u.step(e)
				take(o)
				next = append(next, o.Ask...)
			}
		}
		out.Ask = next
	}
}

// Nodes that stand still for a while, and that the cloud hears, take nothing of what one needs that
// died: whom the cloud misses is declared dead by the next question.
func TestFrozenNodesAndADeath(t *testing.T) {
	u := leading(50)
	victim, frozen := u.rank(49), func(i int) (list []string) {
		for k := range 5 {
			list = append(list, u.rank(1+(5*i+k)%45))
		}
		return list
	}
	declared := 0
	for i := range 12 { // each for 40 s
		for range 4 {
			u.vote(frozen(i))
		}
		declared += len(u.Dead(u.now))
	}
	if declared == 0 {
		t.Fatal("of frozen ones none is declared dead")
	}
	for range 5 {
		u.vote(append(frozen(12), victim))
	}
	u.step(Cloud{victim, false, u.cloud[victim].Verdict, false, time.Time{}})
	u.vote(append(frozen(12), victim))
	if !slices.Contains(u.Dead(u.now), victim) {
		t.Errorf("the cloud misses it, and dead are %v", u.Dead(u.now))
	}
}

// Of many in one question those are declared dead that were gone for the longest.
func TestWhoIsGoneForLongComesFirst(t *testing.T) {
	u := leading(50)
	u.cfg.Suspicion = 4
	var first, then []string
	for i := range 5 {
		first, then = append(first, u.rank(40+i)), append(then, u.rank(10+i))
	}
	u.vote(first)
	u.vote(first)
	u.vote(append(slices.Clone(then), first...))
	u.cfg.Suspicion = 2
	u.vote(append(slices.Clone(then), first...))
	slices.Sort(first)
	if got := u.Dead(u.now); !slices.Equal(got, first) {
		t.Errorf("declared dead are %v, want %v", got, first)
	}
}

// gone is a node that may be away, for the budget alone.
type gone struct {
	since, lost, asked time.Time // zero where it is there, or the cloud hears it
	dead               bool
	paid               time.Time // when it was declared dead last, and not within the window of that
	counts             bool      // it was lost while it was dead
}

// budgets is a unit whose nodes go and come back.
type budgets struct {
	budget
	cfg   Config
	now   time.Time
	nodes []gone
}

func who(i int) Member { return Member{Name: fmt.Sprint(i), UID: "u"} }

func (b *budgets) of(m Member) *gone {
	for i := range b.nodes {
		if who(i) == m {
			return &b.nodes[i]
		}
	}
	return &gone{}
}

func (b *budgets) dead() (n int) {
	for _, g := range b.nodes {
		if g.dead {
			n++
		}
	}
	return n
}

// pass has ten seconds go by. A quarter of the nodes is away for long, the others for a while.
func (b *budgets) pass(r *rand.Rand) {
	b.now = b.now.Add(10 * time.Second)
	for i := range b.nodes {
		g := &b.nodes[i]
		switch {
		case g.since.IsZero() && r.IntN(600) == 0:
			g.since = b.now
		case !g.since.IsZero() && r.IntN([]int{4, 4, 4, 100}[i%4]) == 0:
			*g = gone{paid: g.paid, counts: g.counts}
		}
		if !g.since.IsZero() && g.lost.IsZero() && b.now.Sub(g.since) >= 50*time.Second {
			g.lost, g.asked, g.counts = b.now, time.Time{}, g.counts || g.dead
			b.missed(who(i))
		}
	}
	b.look(b.now, &b.cfg, func(m Member) bool { return b.of(m).dead }, func(m Member) bool { return !b.of(m).lost.IsZero() })
	for _, i := range r.Perm(len(b.nodes)) { // each is asked about once a minute
		g := &b.nodes[i]
		if g.since.IsZero() || g.dead || b.now.Sub(g.since) < 20*time.Second || b.now.Sub(g.asked) < b.cfg.Renew {
			continue
		}
		g.asked = b.now
		if g.dead = b.take(b.now, &b.cfg, len(b.nodes), b.dead(), who(i), !g.lost.IsZero()); g.dead {
			if b.now.Sub(g.paid) >= b.cfg.Window || !g.counts {
				g.paid, g.counts = b.now, false
			}
			g.counts = g.counts || !g.lost.IsZero()
		}
	}
}

// Laws of the budget, over random histories: no more than twice the share of a unit are lost and
// declared dead in a window, and who the cloud misses is declared dead by the next question where no
// more than the share died; else in time, unless half of the unit is dead.
func TestBudgetsLaws(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := &budgets{budget{map[Member]*death{}}, Default("a"), began, make([]gone, 10+r.IntN(60))}
		share := max(1, int(b.cfg.Share*float64(len(b.nodes))))
		for range 3000 {
			b.pass(r)
			lost, waits := 0, 0
			for _, g := range b.nodes {
				if g.counts && b.now.Sub(g.paid) < b.cfg.Window {
					lost++
				}
				if !g.lost.IsZero() && !g.dead {
					waits++
				}
			}
			if lost > 2*share {
				t.Fatalf("seed %d, after %s: %d of %d are lost and declared dead within %s", seed, b.now.Sub(began), lost, len(b.nodes), b.cfg.Window)
			}
			if waits > 0 && lost < share && 2*(b.dead()+1) <= len(b.nodes) && waits > b.waiting() {
				t.Fatalf("seed %d, after %s: %d of %d were declared dead, and one that is lost waits", seed, b.now.Sub(began), lost, len(b.nodes))
			}
			for i, g := range b.nodes {
				if most := time.Duration(waits/share+1) * (b.cfg.Window + b.cfg.Renew); !g.lost.IsZero() && !g.dead && b.now.Sub(g.lost) > most+b.cfg.Renew && 2*(b.dead()+1) <= len(b.nodes) {
					t.Fatalf("seed %d, after %s: %d is lost for %s, and not declared dead; %d wait", seed, b.now.Sub(began), i, b.now.Sub(g.lost), waits)
				}
			}
		}
	}
}

// waiting are those that are lost, and were asked about before that would have been of use.
func (b *budgets) waiting() (n int) {
	for _, g := range b.nodes {
		if !g.lost.IsZero() && !g.dead && g.asked.Before(b.now) {
			n++
		}
	}
	return n
}
