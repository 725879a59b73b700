package plan

import (
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
		if percent, ok := strings.CutSuffix(n.StrVal, "%"); ok {
			share, _ := strconv.ParseFloat(percent, 64)
			w.share = share / 100
		}
	}
	return w
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
