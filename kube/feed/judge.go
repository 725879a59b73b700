package feed

import (
	"errors"
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// ErrHeld means that a list was not believed; the reflector lists again.
var ErrHeld = errors.New("list is held back")

// confirm is how long a list that drops more than half of what is known must
// stand.
const confirm = 10 * time.Second

// weights are the objects of a watch, and how much each of them counts.
type weights map[topology.ObjectKey]int

func (w weights) total() (n int) {
	for _, weight := range w {
		n += weight
	}
	return n
}

// judge decides which lists of one watch are believed.
type judge struct {
	watch  string
	anchor string // "namespace/name", or ""
	// Since when, and with which total, a list is held back; zero for none.
	since time.Time
	total int
}

// believe holds back a list without its anchor, and one that drops more than
// half until a second one, at least 10 s later, says the same.
func (j *judge) believe(known, next weights, now time.Time) error {
	if j.anchor != "" {
		if _, ok := next[parseKey(j.anchor)]; !ok {
			return fmt.Errorf("%w: %s lacks %s, so it is not whole", ErrHeld, j.watch, j.anchor)
		}
	}
	before, after := known.total(), next.total()
	if after*2 >= before {
		j.since = time.Time{}
		return nil
	}
	if j.since.IsZero() || !similar(j.total, after) {
		j.since, j.total = now, after
	}
	if now.Sub(j.since) < confirm {
		return fmt.Errorf("%w: %s would drop from %d to %d; waiting for a list %s later that agrees", ErrHeld, j.watch, before, after, confirm)
	}
	j.since = time.Time{}
	return nil
}

// similar reports whether two totals differ by at most a tenth of the larger.
func similar(a, b int) bool { return 10*(max(a, b)-min(a, b)) <= max(a, b) }
