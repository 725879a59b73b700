package shield

import (
	"errors"
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/health/vote"
)

// Verdict is the vote of a unit on one of its nodes.
type Verdict uint8

// Verdicts. None was voted where there is none.
const (
	None Verdict = iota
	Well
	Dead
)

// VerdictOf is what the annotation of a Node says (vote.AnswerOf).
func VerdictOf(annotation string) Verdict {
	switch vote.AnswerOf(annotation) {
	case vote.Yes:
		return Well
	case vote.No:
		return Dead
	}
	return None
}

// Node is what the cloud knows of a node.
type Node struct {
	Lost bool // its condition Ready is Unknown
	// Since is from when on it is: as it was seen here, or for who finds it so by what that
	// condition says, which the controller manager wrote.
	Since   time.Time
	Verdict Verdict
	// Evidence is what the verdict rests on; the zero one where that cannot be read.
	Evidence evidence.Evidence
	// Voted is when the verdict, or what it rests on, was last seen to change, or was found.
	Voted time.Time
	// Found says that it was there when the Node was first seen, and has not changed since:
	// it may be of any age, unless it is Dated: then Voted is when the API server took it.
	Found, Dated bool
	// Counts says that the verdict was seen to be by who spoke for its unit, and to rest on what it
	// has to (Counted), or was found. Where it does not, Last stands, the last that did.
	Counts bool
	Last   Vote
	// Waits are votes after that one which were written over before they counted, the oldest first: who led
	// then may be told later. They are the newest of each writer, and at most as many as its unit has nodes.
	Waits []Vote
	// Kept says that its pods stayed when it was last decided about, or that a list says so
	// that was found.
	Kept bool
	// Given says that it was released while it was lost for long, by a unit that could not agree for
	// long (Decided): that the unit then falls silent does not take it back. For long, as nodes of
	// one outage are missed one by one.
	Given bool
}

// Vote is what was voted on a node, and when; its fields are those of Node.
type Vote struct {
	Verdict      Verdict
	Evidence     evidence.Evidence
	Voted        time.Time
	Found, Dated bool
}

// Unit is what the cloud knows of a node's unit. How that changes: past.go.
type Unit struct {
	// Heard is when its Lease was last seen to be renewed, or when the API server took the
	// last renewal of one that was found; zero where it never had one.
	Heard time.Time
	seen  time.Time // when that was told
	// Holder has its Lease, or had it last, since Handed; Before had it before. "" where that is
	// not known. Holder speaks for it, and Before did.
	Holder, Before string
	Handed         time.Time
	// Again is when it was first heard after it was silent, or when one began to look at
	// nodes of it that were kept by then; zero where neither was.
	Again time.Time
	// Gone is since when it has no Lease, as far as was seen; zero where it has one.
	Gone time.Time
	// Told is since when the API server tells of it and its nodes; zero for always.
	Told time.Time
	// Most says that most nodes of the cluster are lost: rather the cloud is cut off (MayPart).
	Most bool
	// Nodes is how many are in it, and Alive how many of them the cloud hears.
	Nodes, Alive int
}

// Action is what is to become of a node.
type Action uint8

// Actions.
const (
	Nothing   Action = iota // Kubernetes does as it does
	Shield                  // its pods and endpoints stay
	Hold                    // they stay, for it is not known whether they are well
	HoldBound               // those that are bound to its unit stay, the others go
	Suspect                 // nothing new is to be placed on it
	Evict                   // its pods and endpoints go
)

// Keeps reports whether pods and endpoints stay though the node is lost, all or some.
func (a Action) Keeps() bool { return a == Shield || a == Hold || a == HoldBound }

func (a Action) String() string {
	return [...]string{"nothing", "shield", "hold", "hold bound", "suspect", "evict"}[min(a, Evict)]
}

// Config is how long things count.
type Config struct {
	// Silent is after how long without a renewal a unit's Lease says that the unit has no
	// uplink. It is less than the time after which Kubernetes takes a node for lost, so
	// that it is known by then.
	Silent time.Duration
	// Doubt is after how long without a renewal it says so only where the cloud hears no
	// node of the unit: else nobody votes there any more; and how long who was kept stays
	// where there is no Lease any more. It is more than the time after which Kubernetes
	// takes a node for lost.
	Doubt time.Duration
	// Fresh is how old what a verdict rests on may be: voters renew it each minute while
	// the node is lost.
	Fresh time.Duration
	// HoldVerdict is for how long after that the last verdict counts, of a unit that is
	// heard and does not agree.
	HoldVerdict time.Duration
	// Autonomy is for how long a lost node of a unit without uplink is held with all its pods;
	// 0 for ever. Those that are bound to the unit are held on: evicted ones could run nowhere
	// else.
	Autonomy time.Duration
}

// Default is for voters with rounds of 10 s, and Kubernetes' own grace of 50 s. Most outages of
// an uplink are over within the hour; a site that burned down has its replacements after it.
func Default() Config {
	return Config{
		Silent: 30 * time.Second, Doubt: 2 * time.Minute, Fresh: 150 * time.Second, HoldVerdict: 5 * time.Minute,
		Autonomy: time.Hour,
	}
}

// Validate reports all that is wrong.
func (c Config) Validate() error {
	var errs []error
	if c.Silent <= 0 {
		errs = append(errs, fmt.Errorf("a unit without a renewal for %s has no uplink: must be positive", c.Silent))
	}
	if c.Doubt < c.Silent {
		errs = append(errs, fmt.Errorf("a unit without a renewal for %s is looked at again after %s: must not be less", c.Silent, c.Doubt))
	}
	if c.Fresh <= 0 {
		errs = append(errs, fmt.Errorf("evidence counts for %s: must be positive", c.Fresh))
	}
	if c.HoldVerdict < 0 || c.Autonomy < 0 {
		errs = append(errs, fmt.Errorf("a verdict is held for %s, a unit for %s: must not be negative", c.HoldVerdict, c.Autonomy))
	}
	return errors.Join(errs...)
}

// Decide says what is to become of a node at a time, and why. It is asked of all nodes, and
// not of lost ones alone: Kubernetes marks the pods of a node in the moment in which it takes
// the node for lost, and has to be told before that they are to stay.
func Decide(now time.Time, c Config, n Node, u Unit) (Action, string) {
	n = n.Counted(now, c, u)
	n = n.with(n.Stands())
	switch silent := now.Sub(u.Heard); {
	case !u.Gone.IsZero() && now.Sub(u.Gone) <= c.Doubt && (n.Kept || !u.Heard.IsZero()):
		return gone(n)
	case u.Heard.IsZero():
		return Nothing, "nobody votes in its unit"
	case !u.Gone.IsZero():
		return Nothing, "nobody votes in its unit any more: its Lease is gone"
	case silent > c.Doubt && u.Alive > 0 && now.Sub(u.Told) > c.Doubt:
		return mute(now, c, n, u)
	case silent > c.Silent:
		return frozen(now, c, n, u)
	case n.Lost:
		return lost(now, c, n, u)
	}
	return heard(now, c, n, u)
}

// unproven is why a verdict of death counts for nothing yet, or "". Nothing is done to a node
// but by more than half of the unit that the cloud knows, all of whom were asked: what only says
// "false" may be written by anybody who may annotate Nodes. It is written by who holds the unit's
// Lease, as the policies of votes have a voter say its own name in both, or by who held it until a
// moment before that was seen to be written: one that stood still since knows nothing. And it has
// to be seen to change: clocks of nodes may be an hour off, so of one that was found nobody knows
// how old it is, and the node may have come back since. Voters renew it each minute.
func unproven(v Vote, u Unit) string {
	e := v.Evidence
	switch {
	case !e.Exact || e.Yes+e.No > e.Of || vote.Decide(max(e.Of, u.Nodes), e.Yes, e.No) != vote.No:
		return fmt.Sprintf("it is said to be dead, and the evidence is not of more than half of the %d nodes of its unit", u.Nodes)
	case u.Holder == "":
		return fmt.Sprintf("it is said to be dead by %q, which does not speak for its unit as far as is known: nobody was seen to hold its Lease", e.By)
	case !u.speaks(e.By, v.Voted):
		return fmt.Sprintf("it is said to be dead by %q, which does not speak for its unit: %q does", e.By, u.Holder)
	case v.Found:
		return "it is said to be dead since before the controller looked: that has to be renewed to count"
	}
	return ""
}

// handover is for how long who held the Lease before may go on to be seen to write: what it has begun
// to.
const handover = 10 * time.Second

// speaks reports whether a node spoke for its unit when that was seen to be written.
func (u *Unit) speaks(by string, at time.Time) bool {
	return by != "" && (by == u.Holder || by == u.Before && at.Sub(u.Handed) <= handover)
}

// counts reports whether a verdict is by who spoke for its unit, and not another one than what it rests
// on. That a node is well may be by its observers alone, whom no count of the unit holds.
func (v *Vote) counts(u *Unit) bool {
	if v.Verdict == Well {
		return v.Evidence.Yes > v.Evidence.No && u.speaks(v.Evidence.By, v.Voted)
	}
	return v.Verdict == Dead && unproven(*v, *u) == ""
}

// Stands is what stands of a node: the last verdict that counts, as old as it is, or what there is where none
// does. Whoever may annotate Nodes may write another, or take it away.
func (n Node) Stands() (v Vote, counts bool) {
	if !n.Counts && n.Last.Verdict != None {
		return n.Last, true
	}
	return n.vote(), n.Counts
}

func (n Node) vote() Vote { return Vote{n.Verdict, n.Evidence, n.Voted, n.Found, n.Dated} }

// with is a node with another vote.
func (n Node) with(v Vote, counts bool) Node {
	n.Verdict, n.Evidence, n.Voted, n.Found, n.Dated, n.Counts = v.Verdict, v.Evidence, v.Voted, v.Found, v.Dated, counts
	return n
}

// gone is of a node in a unit whose Lease was there: it may be taken away by mistake, or by
// somebody who is not of the unit, which makes another one if it can.
func gone(n Node) (Action, string) {
	if n.Lost && !n.Kept {
		return Nothing, "its unit's Lease is gone, and it was not kept before"
	}
	return Hold, "its unit's Lease is gone"
}

// mute is of a node in a unit whose Lease has been silent for long though the cloud hears nodes of
// it: it cannot agree, for it is cut in halves or its uplink is on the smaller side, or its daemons
// were taken away. Who was not told for a while does not know yet whom the cloud hears.
func mute(now time.Time, c Config, n Node, u Unit) (Action, string) {
	if n.Lost && n.Kept && n.Verdict == Well && n.Counts && now.Sub(u.Heard) <= c.Fresh+c.HoldVerdict {
		return Hold, "nobody votes in its unit any more, which voted last that it is well"
	}
	return Nothing, "nobody votes in its unit any more: the cloud hears nodes of it, and no vote"
}

// frozen is of a node in a unit without uplink: whatever was before stays.
// That keeps who was kept, or was lost with its unit, and revives nobody who was given up.
func frozen(now time.Time, c Config, n Node, u Unit) (Action, string) {
	const why = "its unit has no uplink"
	switch {
	case n.Lost && !n.Kept && n.Verdict == Dead && (n.Counts || n.Found):
		return Nothing, why + ", and said before that it is dead"
	case n.Lost && !n.Kept && (n.Given || !n.Since.After(u.Heard)):
		return Nothing, why + ", and did not keep it before"
	case n.Lost && c.Autonomy > 0 && now.Sub(n.Since) > c.Autonomy && u.Most:
		return Hold, why + ", and most of the cluster is lost"
	case n.Lost && c.Autonomy > 0 && now.Sub(n.Since) > c.Autonomy:
		return HoldBound, fmt.Sprintf("%s, and the cloud has not heard it for more than %s", why, c.Autonomy)
	}
	return Hold, why
}

// heard is of a node that the cloud hears, or has not missed yet.
func heard(now time.Time, c Config, n Node, u Unit) (Action, string) {
	fresh := now.Sub(n.Voted) <= c.Fresh
	switch {
	case n.Kept && now.Sub(u.Again) <= c.Doubt && n.Voted.Before(u.Again):
		return Hold, "its unit was not heard until now, and the cloud may not have missed it yet"
	case fresh && n.Verdict == Well && n.Counts && n.Evidence.Cut:
		return Shield, "it says that it has no uplink, and more than half of its unit see it"
	case fresh && n.Verdict == Dead:
		if why := unproven(n.vote(), u); why != "" {
			return Nothing, why
		}
		return Suspect, "the cloud hears it, and more than half of its unit do not"
	case n.Kept && now.Sub(u.Again) <= c.Doubt:
		return Hold, "its unit was not heard until now, and the cloud may not have missed it yet"
	}
	return Nothing, "the cloud hears it"
}

// ageless reports whether a node was lost when its verdict was found, and nobody knows how old
// that is.
func (n Node) ageless() bool { return n.Found && !n.Dated && !n.Since.After(n.Voted) }

// lost is of a lost node in a unit that is heard. What was voted before the unit fell silent
// gives up nobody who was kept since: in a unit that is heard again it takes a while until the
// cloud hears its nodes, or they have voted on those that it does not.
func lost(now time.Time, c Config, n Node, u Unit) (Action, string) {
	old := now.Sub(n.Voted)
	before := n.Kept && n.Voted.Before(u.Again)
	switch {
	case n.Verdict == Well && !n.Kept && n.ageless():
		return Nothing, "it is said to be well since before the controller looked, and is on no list: that has to be renewed to count"
	case n.Verdict == Well && n.Counts && old <= c.Fresh:
		return Shield, "it lost its uplink alone: more than half of its unit see it"
	case n.Verdict == Dead && old <= c.Fresh && !before && unproven(n.vote(), u) == "":
		return Evict, "more than half of its unit say that it is dead"
	case n.Verdict == Well && n.Counts && old <= c.Fresh+c.HoldVerdict:
		return Hold, "its unit does not agree on it, and voted last that it is well"
	case n.Kept && now.Sub(u.Again) <= c.Fresh+c.HoldVerdict:
		return Hold, "its unit is heard again, and has not agreed on it since"
	case n.Verdict == Dead && old <= c.Fresh:
		return Nothing, unproven(n.vote(), u)
	case n.Verdict == Well && !n.Counts && old <= c.Fresh:
		return Nothing, fmt.Sprintf("it is said to be well by %q, which does not speak for its unit, or by no count", n.Evidence.By)
	case n.Verdict == None:
		return Nothing, "its unit has not voted on it"
	}
	return Nothing, fmt.Sprintf("its unit does not agree on it, and has not for %s", old.Round(time.Second))
}
