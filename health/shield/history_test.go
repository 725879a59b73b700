package shield

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/health/evidence"
)

// step is how often it is looked.
const step = time.Second

// truth is how a node is.
type truth struct {
	dead, cut bool // it died; it has no uplink of its own
	unsure    bool // its unit does not agree on it
	// What the API server has.
	lost    bool
	since   time.Time // of that
	beat    time.Time // the last heartbeat
	verdict Verdict
	proof   evidence.Evidence
	voted   time.Time
	mark    int   // of what stands there
	forged  *Vote // that somebody else wrote since
}

// site is a unit of nodes that vote, its uplink, and what the API server has of it.
type site struct {
	t       *testing.T
	now     time.Time
	nodes   map[string]*truth
	dark    bool          // no uplink at all
	mute    bool          // no majority hears each other
	away    bool          // the API server does not answer
	grace   time.Duration // of the controller manager
	renewed time.Time
	// since is from when on what the voters know is as it is; heal when the unit was first
	// heard after its last silence.
	since, heal time.Time
	darkened    time.Time // since when it has no uplink, where it has none
	hides       bool      // somebody writes over each vote at once
}

func newSite(t *testing.T, n int, grace time.Duration) *site {
	t.Helper()
	w := &site{t: t, now: now, nodes: map[string]*truth{}, grace: grace, renewed: now, since: now}
	for i := range n {
		beat := now.Add(-time.Duration(i) * 3 * time.Second) // heartbeats do not come all at once
		w.nodes[fmt.Sprint("n-", i)] = &truth{beat: beat, verdict: Well, voted: now, proof: evidence.Evidence{Yes: n, Of: n}}
	}
	return w
}

// votes reports whether the unit votes, and the API server hears of it: more than half live and
// hear each other, and one of them has an uplink.
func (w *site) votes() bool {
	live, up := 0, 0
	for _, n := range w.nodes {
		if !n.dead {
			if live++; !n.cut {
				up++
			}
		}
	}
	return 2*live > len(w.nodes) && up > 0 && !w.dark && !w.mute && !w.away
}

const (
	agree  = 30 * time.Second // after which the voters know
	settle = 15 * time.Second // and have written it, once they have an uplink again
	late   = 20 * time.Second // after which kubelets are heard again
)

// pass has a moment go by: kubelets, voters, and the controller manager.
func (w *site) pass() {
	w.now = w.now.Add(step)
	if w.votes() {
		if w.now.Sub(w.renewed) > Default().Silent {
			w.heal = w.now
		}
		if w.now.Sub(w.renewed) >= 10*time.Second {
			w.renewed = w.now
		}
	}
	for _, n := range w.nodes {
		if w.away && !n.lost {
			n.beat = w.now // the controller manager begins anew, too
		}
		if !n.dead && !n.cut && !w.dark && !w.away && w.now.Sub(n.beat) >= 10*time.Second && w.now.Sub(w.heal) >= late {
			n.beat = w.now
		}
		if lost := w.now.Sub(n.beat) > w.grace; lost != n.lost {
			n.lost, n.since = lost, w.now
		}
		w.vote(n)
	}
}

// vote writes what the unit says of a node, as it changes, and each minute while that matters.
func (w *site) vote(n *truth) {
	if n.unsure || !w.votes() || w.now.Sub(w.since) < agree || w.now.Sub(w.heal) < settle {
		return
	}
	is := Well
	if n.dead {
		is = Dead
	}
	matters := n.lost || n.cut || n.dead
	if is == n.verdict && n.proof.Cut == n.cut && (!matters || w.now.Sub(n.voted) < time.Minute) {
		return
	}
	n.verdict, n.voted, n.mark = is, w.now, n.mark+1
	n.proof = evidence.Evidence{Yes: len(w.nodes), Of: len(w.nodes), Exact: true, Cut: n.cut, By: "n-0", At: w.now}
	if n.dead {
		n.proof.Yes, n.proof.No = 0, len(w.nodes)/2+1
	}
	switch {
	case !w.hides:
		n.forged = nil
	case n.forged == nil:
		n.forged = &Vote{Verdict: Well, Evidence: evidence.Evidence{Yes: 2, Of: 2, By: "n-1"}}
	case n.forged.Evidence.By == "n-0": // a verdict alone
		n.forged = &Vote{Verdict: n.forged.Verdict, Evidence: n.proof}
	}
}

// watcher is a controller: what it knows, what it said last, and the list that it writes.
type watcher struct {
	w       *site
	nodes   map[string]Node
	marks   map[string]int
	unit    Unit
	renewed time.Time
	begun   time.Time
	listed  map[string]bool
	actions map[string]Action
	spared  bool // it sees nothing that is forged
}

// begins is one that begins, with the list of the one before.
func begins(w *site, listed map[string]bool) *watcher {
	k := &watcher{w: w, nodes: map[string]Node{}, marks: map[string]int{}, begun: w.now, listed: listed, renewed: w.renewed, actions: map[string]Action{}}
	k.unit.Found(w.now, w.renewed)
	k.unit.Held(w.now, "n-0")
	for name, n := range w.nodes {
		is := Found(w.now, n.seen(), n.voted, listed[name])
		if k.nodes[name], k.marks[name] = is, n.mark; is.Kept {
			k.unit.Again = w.now
		}
	}
	for name, n := range k.nodes {
		k.nodes[name] = n.Met(Default(), k.unit, Missed(w.now, maps.Values(k.nodes)))
	}
	return k
}

func (n *truth) seen() Node {
	return Node{Lost: n.lost, Since: n.since, Verdict: n.verdict, Evidence: n.proof}
}

// look takes what changed, and decides.
func (k *watcher) look() {
	now, alive := k.w.now, 0
	if k.w.away {
		k.begun = now
	}
	if k.w.renewed != k.renewed {
		k.renewed = k.w.renewed
		k.unit.Renewed(now, k.renewed, Default())
	}
	for name, n := range k.w.nodes {
		is := n.seen()
		if n.forged != nil && !k.spared {
			if n.mark != k.marks[name] { // it was written over at once
				k.nodes[name] = k.nodes[name].Next(now, is, true)
			}
			is.Verdict, is.Evidence = n.forged.Verdict, n.forged.Evidence
		}
		voted := n.mark != k.marks[name] || is.Verdict != k.nodes[name].Verdict || is.Evidence != k.nodes[name].Evidence
		if k.nodes[name] = k.nodes[name].Next(now, is, voted); voted {
			k.marks[name] = n.mark
			k.unit.Voted(now, Default())
		}
		if !n.lost {
			alive++
		}
	}
	k.unit.Nodes, k.unit.Alive, k.unit.Told = len(k.nodes), alive, k.begun
	next := map[string]bool{}
	for name, n := range k.nodes {
		n = n.Counted(now, Default(), k.unit)
		action, _ := Decide(now, Default(), n, k.unit)
		sure := now.Sub(k.begun) > Default().Silent
		if !sure && !action.Keeps() { // as health/cloud has it
			if action = Nothing; k.listed[name] {
				action = Hold
			}
		}
		n = n.Decided(now, Default(), action, k.unit, sure)
		if k.nodes[name], k.actions[name] = n, action; n.Kept {
			next[name] = true
		}
	}
	if !k.w.away {
		k.listed = next
	}
}

// change has something happen at random.
func (w *site) change(r *rand.Rand) {
	names := slices.Sorted(maps.Keys(w.nodes))
	n := w.nodes[names[r.IntN(len(names))]]
	switch r.IntN(10) {
	case 0:
		n.dead = true
	case 1, 2:
		n.cut = !n.cut
	case 3, 4:
		w.dark = !w.dark
		w.darkened = w.now
	case 5:
		w.mute = !w.mute
	case 6:
		n.unsure, n.cut = !n.unsure, true
	case 7:
		w.away = !w.away
	default:
		n.dead, n.cut, n.unsure, w.dark, w.mute, w.away = false, false, false, false, false, false
	}
	w.since = w.now
}

// withUnit reports whether a node was lost with all others of its unit, as that lost its uplink.
func (w *site) withUnit(n *truth) bool {
	for _, other := range w.nodes {
		if !other.lost || other.since.Sub(n.since) > Default().Doubt {
			return false
		}
	}
	return w.dark && w.darkened.Sub(n.beat) <= 10*time.Second
}

// law says which is broken of a node, or "". Given are who was given up, or lost and not kept while
// the unit was heard, or for long while it could not agree, and neither heard nor voted well since.
func (k *watcher) law(name string, given map[string]bool) string {
	w, n, action := k.w, k.w.nodes[name], k.actions[name]
	switch {
	case !n.lost || n.verdict == Well && n.voted.Equal(w.now):
		delete(given, name)
	case given[name] && action.Keeps():
		return "it was given up, and is revived by silence"
	case w.now.Sub(k.begun) <= Default().Silent:
	case action == Evict, !action.Keeps() && (!n.since.After(w.renewed) || w.now.Sub(w.renewed) > Default().Doubt && w.now.Sub(n.since) > Default().Doubt):
		given[name] = true
	}
	c := Default()
	seen := !n.dead && !n.unsure && w.votes() && w.now.Sub(w.since) > agree+settle+time.Minute && w.now.Sub(w.heal) > settle+time.Minute
	switch {
	case n.lost && seen && !action.Keeps() && w.now.Sub(k.begun) > c.Silent:
		return "it lives, more than half of its unit see it, and it is released"
	case w.withUnit(n) && n.verdict != Dead && !action.Keeps() && w.now.Sub(k.begun) > c.Silent:
		return "its unit has no uplink, and it is released"
	case action == Evict && n.verdict != Dead:
		return "it is given up, and nobody says that it is dead"
	}
	return ""
}

// Laws of what becomes of nodes, over random histories of deaths, cuts, units without uplink or
// majority, and an API server that does not answer, as one controller sees them, and as others do that begin anew in the midst of it.
func TestHistories(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newSite(t, 2+r.IntN(4), []time.Duration{50 * time.Second, 150 * time.Second, 5 * time.Minute}[seed%3])
		steady, anew := begins(w, nil), begins(w, nil)
		dead := [2]map[string]bool{{}, {}}
		held := [2]map[string]time.Time{{}, {}} // who was held when the unit was heard again
		calm := 0
		for range 5000 {
			if calm--; calm < 0 && r.IntN(90) == 0 {
				w.change(r)
				calm = []int{0, 20, 100, 900}[r.IntN(4)]
			}
			heal := w.heal
			w.pass()
			if r.IntN(400) == 0 && !w.away {
				anew = begins(w, anew.listed)
			}
			for i, k := range []*watcher{steady, anew} {
				if w.heal != heal {
					for name := range k.listed {
						held[i][name] = w.heal
					}
				}
				k.look()
				for name, n := range w.nodes {
					if why := k.law(name, dead[i]); why != "" {
						t.Fatalf("seed %d, controller %d, after %s, of %s: %s: %s, %+v, %+v", seed, i, w.now.Sub(now), name, why, k.actions[name], k.nodes[name], k.unit)
					}
					if n.beat.After(w.heal) || n.voted.After(w.heal) {
						delete(held[i], name)
					}
					if from, ok := held[i][name]; ok && n.lost && n.since.Sub(w.renewed) <= Default().Doubt && !k.actions[name].Keeps() && w.now.Sub(from) <= Default().Fresh+Default().HoldVerdict-Default().Silent {
						t.Fatalf("seed %d, controller %d, after %s: %s is released %s after its unit was heard again, which said nothing of it", seed, i, w.now.Sub(now), name, w.now.Sub(from))
					}
				}
			}
		}
		w.away = false
		for range 1500 { // and nothing more happens
			w.pass()
			steady.look()
			anew.look()
		}
		if !maps.Equal(steady.listed, anew.listed) {
			t.Fatalf("seed %d: one keeps %v, and who began anew %v", seed, steady.listed, anew.listed)
		}
	}
}

// forge has somebody write of a node whatever may be written by who does not speak for its unit.
func (w *site) forge(r *rand.Rand) {
	names := slices.Sorted(maps.Keys(w.nodes))
	n := w.nodes[names[r.IntN(len(names))]]
	if w.now.Sub(w.renewed) > Default().Silent { // else it is the first that is heard of the unit
		return
	}
	all := len(w.nodes)
	n.forged = &Vote{Verdict: Verdict(r.IntN(3)), Evidence: evidence.Evidence{Yes: r.IntN(all), Of: all, Exact: true, Cut: r.IntN(2) == 0, By: "n-1"}}
	n.forged.Evidence.No = all - n.forged.Evidence.Yes
	if is := n.forged.Verdict; r.IntN(3) == 0 && is != n.verdict {
		n.forged.Evidence = n.proof // a verdict alone
	}
}

// What somebody writes who does not speak for a unit makes no difference, whatever else happens.
func TestForgeriesMakeNoDifference(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newSite(t, 2+r.IntN(4), 50*time.Second)
		is, spared := begins(w, nil), begins(w, nil)
		spared.spared = true
		w.hides = seed%2 == 0
		calm, forged := 0, 0
		for range 5000 {
			if r.IntN(20) == 0 && !w.away {
				w.forge(r)
			}
			if calm--; calm < 0 && r.IntN(90) == 0 {
				w.change(r)
				calm = []int{0, 20, 100, 900}[r.IntN(4)]
			}
			w.pass()
			is.look()
			spared.look()
			for name, n := range w.nodes {
				if n.forged != nil {
					forged++
				}
				if is.actions[name] != spared.actions[name] {
					t.Fatalf("seed %d, after %s, of %s: %s, and %s without %+v: %+v, %+v", seed, w.now.Sub(now), name, is.actions[name], spared.actions[name], n.forged, is.nodes[name], is.unit)
				}
			}
		}
		if forged < 1000 {
			t.Errorf("seed %d: only %d looks at what is forged", seed, forged)
		}
	}
}
