package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// waves is spec.rollout, ready for use.
type waves struct {
	place     map[string]int // of the units that go first
	order     string         // a hash of those
	number    int            // of units in a wave, where share is 0
	share     float64
	pause     time.Duration
	deadline  time.Duration
	maxFailed int // units past the deadline that stop nothing
	paused    bool
}

const defaultDeadline = 10 * time.Minute

// newWaves is nil for a grid whose changes go to all units at once.
func newWaves(r *apiv1.Rollout) *waves {
	if r == nil {
		return nil
	}
	w := &waves{
		place: make(map[string]int, len(r.Order)), number: 1, pause: seconds(r.PauseSeconds), deadline: defaultDeadline,
		maxFailed: int(r.MaxFailedUnits), paused: r.Paused,
	}
	if len(r.Order) > 0 {
		w.order = sum(r.Order)
	}
	for i, unit := range r.Order {
		w.place[string(unit)] = i
	}
	if r.ProgressDeadlineSeconds != nil {
		w.deadline = seconds(*r.ProgressDeadlineSeconds)
	}
	switch n := r.MaxUnits; {
	case n == nil:
	case n.Type == intstr.Int:
		w.number = max(1, int(n.IntVal))
	default:
		if percent, ok := strings.CutSuffix(n.StrVal, "%"); ok && goodSize(n) { // else one by one
			share, _ := strconv.ParseFloat(percent, 64)
			w.share = share / 100
		}
	}
	return w
}

// wrong is a field that makes no sense, and why.
type wrong struct{ field, text string }

// wrongWaves are the fields of a rollout that make no sense, and why, as the CRD says it;
// and units that the order names twice, of which the last place counts.
func wrongWaves(r *apiv1.Rollout) (list []wrong) {
	if r == nil {
		return nil
	}
	if twice := repeated(r.Order); len(twice) > 0 {
		list = append(list, wrong{"order", fmt.Sprintf("names unit %s more than once; name each once", Short(twice))})
	}
	if !goodSize(r.MaxUnits) {
		list = append(list, wrong{"maxUnits", fmt.Sprintf("%q is no size of a wave: give a number from 1, or a percentage up to 100%%", r.MaxUnits.String())})
	}
	if r.PauseSeconds < 0 {
		list = append(list, wrong{"pauseSeconds", "must not be negative"})
	}
	if r.ProgressDeadlineSeconds != nil && *r.ProgressDeadlineSeconds < 1 {
		list = append(list, wrong{"progressDeadlineSeconds", "must be at least 1"})
	}
	if r.MaxFailedUnits < 0 {
		list = append(list, wrong{"maxFailedUnits", "must not be negative"})
	}
	return list
}

// repeated are the units that an order names more than once, each once.
func repeated(order []apiv1.LabelValue) (list []string) {
	times := map[apiv1.LabelValue]int{}
	for _, unit := range order {
		if times[unit]++; times[unit] == 2 {
			list = append(list, string(unit))
		}
	}
	return list
}

// goodSize reports whether a wave may have that size: the CRD's rule.
func goodSize(n *intstr.IntOrString) bool {
	switch {
	case n == nil:
		return true
	case n.Type == intstr.Int:
		return n.IntVal >= 1
	}
	number, isPercent := strings.CutSuffix(n.StrVal, "%")
	percent, err := strconv.ParseUint(number, 10, 8)
	return isPercent && err == nil && percent <= 100
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// size is how many units of all are in a wave.
func (w *waves) size(units int) int {
	if w.share > 0 {
		return max(1, int(math.Floor(w.share*float64(units))))
	}
	return w.number
}

// compare orders units: those of the order first, the others by name.
func (w *waves) compare(a, b string) int {
	i, first := w.place[a]
	j, second := w.place[b]
	switch {
	case first && second:
		return i - j
	case first:
		return -1
	case second:
		return 1
	}
	return strings.Compare(a, b)
}
