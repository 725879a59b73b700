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

// wrongWaves names the first field of a rollout that makes no sense, and says
// why, as the CRD does.
func wrongWaves(r *apiv1.Rollout) (field, text string) {
	switch {
	case r == nil:
	case !goodSize(r.MaxUnits):
		return "maxUnits", fmt.Sprintf("%q is no size of a wave: give a number from 1, or a percentage up to 100%%", r.MaxUnits.String())
	case r.PauseSeconds < 0:
		return "pauseSeconds", "must not be negative"
	case r.ProgressDeadlineSeconds != nil && *r.ProgressDeadlineSeconds < 1:
		return "progressDeadlineSeconds", "must be at least 1"
	case r.MaxFailedUnits < 0:
		return "maxFailedUnits", "must not be negative"
	}
	return "", ""
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
