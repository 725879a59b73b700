package feed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// errHeld means that a list was not believed: what was known stays.
var errHeld = errors.New("list is held back")

// How long a list that is doubted must stand, and when it is looked at again
// meanwhile: the first pause doubles up to the longest.
const (
	confirm      = 10 * time.Second // it leaves less than half of what was known lately
	never        = time.Duration(math.MaxInt64)
	firstLook    = time.Second
	furthestLook = 30 * time.Second
)

// listed is what a list comes to, in weight.
type listed struct {
	before, after int // what is known, and what the list has
	// recent is what is known and what lists took away lately (memory), and kept
	// what the list has of that.
	recent, kept int
	takes        map[topology.ObjectKey]int // what is known of objects that it has less of
	anchored     bool                       // it has its anchor
	// alone: no other list of this API server is one that cannot be true.
	alone bool
}

// judge decides which lists of one watch are believed.
type judge struct {
	selection
	held doubt // about the latest list; zero for none
	lost memory
	took time.Time // when a list took anything last
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

// believe holds back a list without its anchor, and one that leaves less than
// half of what was known within the last minute, until a later one says the
// same; the judge's doubt then is why. An API server of which one list cannot be
// true is believed in no other list either that takes much away.
func (j *judge) believe(l listed, now time.Time) bool {
	why, stand := j.doubt(l)
	if why == "" {
		j.held = doubt{}
		if len(l.takes) > 0 {
			j.took = now
		}
		for key, weight := range l.takes {
			j.lost.taken(key, weight, now)
		}
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
		clear(j.lost) // it has stood: what was before is over
		return true
	}
	j.held.stand, j.held.gross, j.held.looks = stand, gross, j.held.looks+1
	j.held.err = fmt.Errorf("%w: %s %s; %s", errHeld, j.name, why, waitingFor(stand))
	return false
}

// rest forgets what lists took, once that is long ago. It costs next to nothing.
func (j *judge) rest(now time.Time) {
	if len(j.lost) > 0 && now.Sub(j.took) >= span {
		j.lost = memory{}
	}
}

// doubt returns what is wrong with a list, "" for nothing, and how long lists
// like it must agree.
func (j *judge) doubt(l listed) (why string, stand time.Duration) {
	switch {
	case j.anchor != "" && !l.anchored:
		return "lacks " + j.anchor + ", so it is not whole", cmp.Or(j.patience, never)
	case l.after == 0 && l.before > 0 && j.patience > 0:
		return fmt.Sprintf("is empty where %d were known", l.before), j.patience
	case l.kept*2 < l.recent && len(l.takes) > 0:
		return fmt.Sprintf("leaves %d of the %d that were known within the last minute", l.kept, l.recent), confirm
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
