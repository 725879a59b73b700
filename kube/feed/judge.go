package feed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// errHeld means that a list was not believed: what was known stays.
var errHeld = errors.New("list is held back")

// How long a list that is doubted must stand, and when it is looked at again
// meanwhile: the first pause doubles up to the longest.
const (
	confirm      = 10 * time.Second // it drops more than half of what is known
	never        = time.Duration(math.MaxInt64)
	firstLook    = time.Second
	furthestLook = 30 * time.Second
)

// listed is what a list comes to.
type listed struct {
	before, after int  // weight of what is known, and of what the list has
	anchored      bool // it has its anchor
	// alone: no other list of this API server is one that cannot be true.
	alone bool
}

// judge decides which lists of one watch are believed.
type judge struct {
	selection
	held doubt // about the latest list; zero for none
}

// doubt is why a list is held back, since when lists like it are, and how
// often it was looked at.
type doubt struct {
	err   error
	since time.Time
	total int
	looks int
	stand time.Duration // how long such lists must agree
	gross bool          // no time makes such a list true
}

// believe holds back a list without its anchor, and one that drops more than
// half, until a later one says the same; the judge's doubt then is why. An API
// server of which one list cannot be true is believed in no other list either
// that takes much away.
func (j *judge) believe(l listed, now time.Time) bool {
	why, stand := j.doubt(l)
	if why == "" {
		j.held = doubt{}
		return true
	}
	gross := stand == never
	if !l.alone {
		stand = never
	}
	if j.held.err == nil || !similar(j.held.total, l.after) {
		j.held = doubt{since: now, total: l.after}
	}
	if stand != never && now.Sub(j.held.since) >= stand {
		j.held = doubt{}
		return true
	}
	j.held.stand, j.held.gross, j.held.looks = stand, gross, j.held.looks+1
	j.held.err = fmt.Errorf("%w: %s %s; %s", errHeld, j.name, why, waitingFor(stand))
	return false
}

// doubt returns what is wrong with a list, "" for nothing, and how long lists
// like it must agree.
func (j *judge) doubt(l listed) (why string, stand time.Duration) {
	switch {
	case j.anchor != "" && !l.anchored:
		return "lacks " + j.anchor + ", so it is not whole", cmp.Or(j.patience, never)
	case l.after == 0 && l.before > 0 && j.patience > 0:
		return fmt.Sprintf("is empty where %d were known", l.before), j.patience
	case l.after*2 < l.before:
		return fmt.Sprintf("would drop from %d to %d", l.before, l.after), confirm
	}
	return "", 0
}

func waitingFor(stand time.Duration) string {
	if stand == never {
		return "waiting for one that is whole"
	}
	return fmt.Sprintf("waiting for a list %s later that agrees", stand)
}

// next is when to look again, after a list was held back.
func (j *judge) next(now time.Time, first time.Duration) time.Duration {
	pause := min(first<<min(j.held.looks-1, 10), furthestLook)
	if left := j.held.since.Add(j.held.stand).Sub(now); j.held.stand != never && left > 0 {
		pause = min(pause, left)
	}
	return pause
}

// similar reports whether two totals differ by at most a tenth of the larger.
func similar(a, b int) bool { return 10*(max(a, b)-min(a, b)) <= max(a, b) }
