package lists

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrHeld means that a list was not believed: what was known stays.
var ErrHeld = errors.New("list is held back")

// How long a list that is doubted must stand, and when it is looked at again
// meanwhile: the first pause doubles up to the longest.
const (
	Confirm      = 10 * time.Second // it leaves less than half of what was known lately
	FirstLook    = time.Second
	FurthestLook = 30 * time.Second
	never        = time.Duration(math.MaxInt64)
)

// Selection is which objects of a kind lists are of.
type Selection struct {
	Name string // of the watch, in errors
	// Anchor is the "namespace/name" of an object that every whole list holds,
	// "" for none.
	Anchor string
	// Patience is how long lists must agree that lack the anchor, or are empty
	// where something was known; 0: the anchor is never missing.
	Patience time.Duration
}

// List is what a list comes to, in weight; K names objects.
type List[K comparable] struct {
	Before, After int // what is known, and what the list has
	// Recent is what is known and what lists took away lately (Memory), and Kept
	// what the list has of that.
	Recent, Kept int
	Takes        map[K]int // what is known of objects that it has less of
	Anchored     bool      // it has its anchor
	// Alone: no other list of this API server is one that cannot be true.
	Alone bool
}

// Judge decides which lists of one watch are believed. It has one owner.
type Judge[K comparable] struct {
	Selection
	Held Doubt
	Lost Memory[K]
	took time.Time // when a list took anything last
	// without: what is known is of a list without the anchor, which has stood: that the next one
	// lacks it, too, and takes nothing is nothing new.
	without bool
}

// NewJudge is one that has seen no list.
func NewJudge[K comparable](s Selection) Judge[K] {
	return Judge[K]{Selection: s, Lost: Memory[K]{}}
}

// Doubt is why a list is held back, since when lists like it are, and how
// often it was looked at. It is about the latest list; zero for none.
type Doubt struct {
	Err   error
	Gross bool // no time makes such a list true
	since time.Time
	total int
	looks int
	stand time.Duration // how long such lists must agree
}

// First reports whether this is the first time that it is said.
func (d *Doubt) First() bool { return d.looks == 1 }

// Believe holds back a list without its anchor, and one that leaves less than
// half of what was known within the last minute, until a later one says the
// same; the judge's doubt then is why. An API server of which one list cannot be
// true is believed in no other list either that takes much away.
func (j *Judge[K]) Believe(l List[K], now time.Time) bool {
	why, stand := j.doubt(l)
	if why == "" {
		j.Held = Doubt{}
		if len(l.Takes) > 0 {
			j.took = now
		}
		for key, weight := range l.Takes {
			j.Lost.taken(key, weight, now)
		}
		j.without = !l.Anchored
		return true
	}
	gross := stand == never
	if !l.Alone {
		stand = never
	}
	if j.Held.Err == nil || !similar(j.Held.total, l.After) {
		j.Held = Doubt{since: now, total: l.After}
	}
	if stand != never && now.Sub(j.Held.since) >= stand {
		j.Held = Doubt{}
		clear(j.Lost) // it has stood: what was before is over
		j.without = !l.Anchored
		return true
	}
	j.Held.stand, j.Held.Gross, j.Held.looks = stand, gross, j.Held.looks+1
	j.Held.Err = fmt.Errorf("%w: %s %s; %s", ErrHeld, j.Name, why, waitingFor(stand))
	return false
}

// Rest forgets what lists took, once that is long ago. It costs next to nothing.
func (j *Judge[K]) Rest(now time.Time) {
	if len(j.Lost) > 0 && now.Sub(j.took) >= Span {
		j.Lost = Memory[K]{}
	}
}

// doubt returns what is wrong with a list, "" for nothing, and how long lists
// like it must agree.
func (j *Judge[K]) doubt(l List[K]) (why string, stand time.Duration) {
	switch {
	case j.Anchor != "" && !l.Anchored && (!j.without || len(l.Takes) > 0):
		return "lacks " + j.Anchor + ", so it is not whole", cmp.Or(j.Patience, never)
	case l.After == 0 && l.Before > 0 && j.Patience > 0:
		return fmt.Sprintf("is empty where %d were known", l.Before), j.Patience
	case l.Kept*2 < l.Recent && len(l.Takes) > 0:
		return fmt.Sprintf("leaves %d of the %d that were known within the last minute", l.Kept, l.Recent), Confirm
	}
	return "", 0
}

func waitingFor(stand time.Duration) string {
	if stand == never {
		return "waiting for one that is whole"
	}
	return fmt.Sprintf("waiting for a list %s later that agrees", stand)
}

// Next is when to look again, after a list was held back.
func (j *Judge[K]) Next(now time.Time, first time.Duration) time.Duration {
	pause := min(first<<min(j.Held.looks-1, 10), FurthestLook)
	if left := j.Held.since.Add(j.Held.stand).Sub(now); j.Held.stand != never && left > 0 {
		pause = min(pause, left)
	}
	return pause
}

// similar reports whether two totals differ by at most a tenth of the larger.
func similar(a, b int) bool { return 10*(max(a, b)-min(a, b)) <= max(a, b) }
