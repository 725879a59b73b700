package shield

import (
	"iter"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/health/evidence"
)

// Renewed notes that the unit's Lease is seen to be renewed; at is when the API server took that,
// zero where it does not say so. That counts where it was long ago, and after the last one was seen:
// then it is told late, and what was told of the unit's nodes meanwhile, or is now, came after it.
// Else it counts as renewed now, whatever the API server's clock.
func (u *Unit) Renewed(now, at time.Time, c Config) {
	u.told(now, c)
	if now.Sub(at) <= c.Silent || !at.After(u.seen) {
		at = now
	}
	u.Heard, u.Gone, u.seen = at, time.Time{}, now
}

// Held notes who is seen to hold the unit's Lease; "" for nobody.
func (u *Unit) Held(now time.Time, by string) {
	if by != "" && by != u.Holder {
		u.Holder, u.Before, u.Handed = by, u.Holder, now
	}
}

// Vanished notes that the unit has no Lease, or has none any more.
func (u *Unit) Vanished(now time.Time) {
	if u.Gone.IsZero() {
		u.Gone = now
	}
}

// Found notes a Lease that one finds as one begins to look; at is when the API server took its
// last renewal, zero where it does not say so: then it counts as renewed now.
func (u *Unit) Found(now, at time.Time) {
	u.Gone, u.seen = time.Time{}, now
	if u.Heard = at; at.IsZero() || at.After(now) {
		u.Heard = now
	}
}

// Found is what is known of a node that one finds as one begins to look; voted is when the API
// server took its verdict, zero where it does not say so, and kept whether a list says that its
// pods stay. Since of n is what its condition says.
func Found(now time.Time, n Node, voted time.Time, kept bool) Node {
	n.Found, n.Dated, n.Voted, n.Kept, n.Counts = true, !voted.IsZero(), voted, kept, n.Verdict == Well
	if !n.Dated || voted.After(now) {
		n.Voted = now
	}
	if n.Since.IsZero() || n.Since.After(now) {
		n.Since = now
	}
	return n
}

// Missed is when the last node of a unit was missed, as one finds them; now where the cloud hears
// one.
func Missed(now time.Time, unit iter.Seq[Node]) (last time.Time) {
	for n := range unit {
		switch {
		case !n.Lost:
			return now
		case n.Since.After(last):
			last = n.Since
		}
	}
	return last
}

// Met is what is known of a node that was found, once all of its unit are; last is when the cloud
// missed the last of these. Who was lost long before that, in a unit that had been silent for long, was
// released then (mute), or the list had it.
func (n Node) Met(c Config, u Unit, last time.Time) Node {
	silent, least := last.Sub(u.Heard), c.Doubt
	if n.Verdict == Well && n.Since.Sub(u.Heard) <= c.Doubt { // kept as it was lost
		least = c.Fresh + c.HoldVerdict
	}
	n.Given = n.Lost && !n.Kept && silent > least && last.Sub(n.Since) > c.Doubt
	return n
}

// Next is what is known of a node after it was seen anew; voted says that its verdict, or what
// that rests on, is another one. That counts once it is seen to (Counted).
func (n Node) Next(now time.Time, next Node, voted bool) Node {
	next.Kept, next.Since = n.Kept, now
	if n.Lost {
		next.Since = n.Since
	}
	next.Given = n.Given && next.Lost
	next.Last, next.Waits = n.Last, n.Waits
	if !voted {
		next.Voted, next.Found, next.Dated, next.Counts = n.Voted, n.Found, n.Dated, n.Counts
		return next
	}
	next.Voted = now
	for _, v := range []Vote{n.vote(), n.Last} { // a verdict is as old as what it rests on
		if v.Evidence == next.Evidence && v.Evidence != (evidence.Evidence{}) {
			next.Voted, next.Found, next.Dated = v.Voted, v.Found, v.Dated
			break
		}
	}
	if n.Counts || n.Found && n.Verdict == Dead && n.Last.Verdict == None { // of what was found nobody else makes an end either
		next.Last, next.Waits = n.vote(), nil
		return next
	}
	is := next.vote()
	next.Waits = slices.DeleteFunc(append(slices.Clone(n.Waits), n.vote()), func(v Vote) bool {
		return v.Verdict == None || v.Evidence.By == "" || is.rewrites(v) // nobody's counts for nobody
	})
	return next
}

// rewrites reports whether who wrote a vote wrote another one since. Another verdict on what it rests on
// already may be anybody's.
func (v Vote) rewrites(earlier Vote) bool {
	return v.Evidence.By == earlier.Evidence.By && (v.Evidence != earlier.Evidence || v.Verdict == earlier.Verdict)
}

// Counted notes which verdicts count, once they are seen to: that who wrote one leads may be told later,
// and others lead, or wrote, after.
func (n Node) Counted(now time.Time, c Config, u Unit) Node {
	if v := n.vote(); !n.Counts && v.counts(&u) {
		news := v.Verdict == Well && v.Evidence != n.Last.Evidence // written again alone it is none
		n.Counts, n.Waits, n.Given = true, nil, n.Given && !news
	}
	for i, v := range slices.Backward(n.Waits) {
		if now.Sub(v.Voted) <= c.Fresh && v.counts(&u) {
			n.Last, n.Waits, n.Given = v, n.Waits[i+1:], n.Given && v.Verdict != Well
			break
		}
	}
	n.Waits = n.Waits[max(0, len(n.Waits)-u.Nodes):]
	return n
}

// Decided is what is known of a node after it was decided about; sure says that it was by what the
// unit does, which who has just begun to look does not know yet.
func (n Node) Decided(now time.Time, c Config, a Action, u Unit, sure bool) Node {
	n.Kept = a.Keeps()
	n.Given = n.Given || n.Lost && !n.Kept && sure && min(now.Sub(u.Heard), now.Sub(n.Since)) > c.Doubt
	return n
}

// Voted notes that a vote of the unit is seen to be written: it has an uplink, or had one just
// now, though its Lease may be seen later.
func (u *Unit) Voted(now time.Time, c Config) { u.told(now, c) }

// told notes the first word after a silence.
func (u *Unit) told(now time.Time, c Config) {
	silent := now.Sub(u.Heard) > c.Silent || !u.Gone.IsZero()
	if !u.Heard.IsZero() && silent && now.Sub(u.Again) > c.Silent {
		u.Again = now
	}
}
