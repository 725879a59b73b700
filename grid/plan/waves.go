package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// rollout is spec.rollout, read.
type rollout struct {
	place     map[string]int // of the units that go first
	number    int            // of units in a wave, where share is 0
	share     float64
	pause     time.Duration
	deadline  time.Duration
	maxFailed int // units past the deadline that stop nothing
	paused    bool
}

const defaultDeadline = 10 * time.Minute

func readRollout(spec Object) *rollout {
	if spec == nil {
		return nil
	}
	r := &rollout{place: map[string]int{}, number: 1, deadline: defaultDeadline, paused: flag(spec, "paused")}
	order, _ := spec["order"].([]any)
	for i, unit := range order {
		if name, ok := unit.(string); ok {
			r.place[name] = i
		}
	}
	if percent, ok := strings.CutSuffix(text(spec, "maxUnits"), "%"); ok {
		n, _ := strconv.ParseFloat(percent, 64)
		r.share = n / 100
	} else {
		r.number = int(max(1, number(spec, 1, "maxUnits")))
	}
	r.maxFailed = int(number(spec, 0, "maxFailedUnits"))
	r.pause = time.Duration(number(spec, 0, "pauseSeconds")) * time.Second
	r.deadline = time.Duration(number(spec, int64(defaultDeadline/time.Second), "progressDeadlineSeconds")) * time.Second
	return r
}

// size is how many units of all are in a wave.
func (r *rollout) size(units int) int {
	if r.share > 0 {
		return max(1, int(math.Floor(r.share*float64(units))))
	}
	return r.number
}

// compare orders units: those of the order first, the others by name.
func (r *rollout) compare(a, b string) int {
	i, first := r.place[a]
	j, second := r.place[b]
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

// state is what a grid remembers from one plan to the next, in its status.
type state struct {
	rollout *apiv1.RolloutStatus
	removed *metav1.Time
	stopped string // why no wave begins, or ""
	paused  bool
	pending int // units whose turn comes later
}

func (g *grid) state() state {
	s := state{}
	if g.workload != nil {
		s.rollout, s.removed = g.workload.Rollout.DeepCopy(), g.workload.LastRemoval.DeepCopy()
	}
	return s
}

// front is where a rollout is: indexes of the steps that the change has not
// reached, in order, and units that it has reached and that are not ready,
// within their deadline and beyond it.
type front struct {
	turn         []int
	busy, failed []string
}

// waves holds back what is not at its turn. What every wave is follows from
// the children alone; the state only says since when.
func (g *grid) waves(p *Plan, s *state, now time.Time) {
	r := g.rollout
	if r == nil {
		s.rollout = nil
		return
	}
	f := g.front(p, now)
	if s.rollout == nil || s.rollout.Revision != g.revision {
		s.rollout = nil
		if len(f.turn) == 0 {
			return // all is as it is to be, and was before
		}
		s.rollout = &apiv1.RolloutStatus{Revision: g.revision}
	}
	if len(f.turn) == 0 && s.rollout.WaitingSince == nil {
		s.rollout.ReadySince = nil // over
		return
	}
	slices.SortStableFunc(f.turn, func(a, b int) int { return r.compare(p.Steps[a].Unit, p.Steps[b].Unit) })
	f.turn = g.deferDark(p, f.turn)
	s.pending = len(f.turn)
	g.turn(p, s, f, now)
}

func (g *grid) front(p *Plan, now time.Time) (f front) {
	for i, step := range p.Steps {
		failure, begun := g.failures[step.Unit]
		switch {
		case step.changed && begun && failure.Final:
			f.failed = append(f.failed, step.Unit)
		case step.changed && begun: // its turn has come, and the write is tried again
			f.busy = append(f.busy, step.Unit)
		case step.changed:
			f.turn = append(f.turn, i)
		case step.Updated || step.Dark || step.Action == Refuse:
		case step.appliedAt.IsZero() || now.Sub(step.appliedAt) < g.rollout.deadline:
			f.busy = append(f.busy, step.Unit)
			if !step.appliedAt.IsZero() {
				p.again(step.appliedAt.Add(g.rollout.deadline).Sub(now))
			}
		default:
			f.failed = append(f.failed, step.Unit)
		}
	}
	return f
}

// deferDark takes units without a ready node out of the order: they catch up.
func (g *grid) deferDark(p *Plan, turn []int) []int {
	return slices.DeleteFunc(turn, func(i int) bool {
		if p.Steps[i].Dark {
			p.Steps[i].wait("no node of the unit is ready; it catches up when one is")
		}
		return p.Steps[i].Dark
	})
}

func (s *Step) wait(why string) { s.Action, s.Why, s.wish = Wait, why, nil }

// turn decides whether the next wave begins now.
func (g *grid) turn(p *Plan, s *state, f front, now time.Time) {
	r, at := g.rollout, wholeSecond(now)
	why := ""
	switch {
	case len(f.failed) > r.maxFailed:
		why = fmt.Sprintf("unit %s is not ready %s after the change reached it; mend it, change the template, or roll back", Short(f.failed), r.deadline)
		s.stopped = why
	case len(f.busy) > 0:
		why = fmt.Sprintf("unit %s is not ready yet", Short(f.busy))
	case s.rollout.WaitingSince != nil:
		p.News = append(p.News, News{Reason: "WaveReady", Message: fmt.Sprintf("the wave is ready %s after it began; %d units wait for theirs", now.Sub(s.rollout.WaitingSince.Time).Round(time.Second), len(f.turn))})
		s.rollout.WaitingSince, s.rollout.ReadySince = nil, &at
		p.Ahead = true
	}
	if len(f.turn) == 0 {
		s.rollout.ReadySince = nil
		return
	}
	if why == "" && s.rollout.ReadySince != nil {
		if left := r.pause - now.Sub(s.rollout.ReadySince.Time); left > 0 {
			why = "the next wave begins " + atTime(s.rollout.ReadySince.Add(r.pause))
			p.again(left)
		}
	}
	if r.paused {
		why, s.paused = "the rollout is paused", true
	}
	first := 0
	if why == "" {
		first = g.begin(p, s, f.turn, at)
		why = "after the wave that goes now"
	}
	g.queue(p, f.turn[first:], why)
}

// wholeSecond is the next one: a status knows no others, and what is waited
// for from then on must not be short.
func wholeSecond(t time.Time) metav1.Time {
	return metav1.Time{Time: t.Add(time.Second - 1).Truncate(time.Second)}
}

// begin lets a wave go and returns its size.
func (g *grid) begin(p *Plan, s *state, turn []int, at metav1.Time) int {
	n := g.wave(p, turn, g.rollout.size(len(p.Steps)))
	units := make([]string, n)
	for i, step := range turn[:n] {
		units[i] = p.Steps[step].Unit
	}
	s.rollout.WaitingSince, s.rollout.ReadySince = &at, nil
	s.pending -= n
	p.Ahead = true
	p.News = append(p.News, News{Reason: "WaveBegins", Message: fmt.Sprintf("the change goes to %d of the %d units that wait for it: %s", n, len(turn), Short(units))})
	return n
}

// wave is how many of the units in turn make a wave: units of the order and
// others do not mix.
func (g *grid) wave(p *Plan, turn []int, size int) int {
	n := min(size, len(turn))
	_, ordered := g.rollout.place[p.Steps[turn[0]].Unit]
	for i, step := range turn[:n] {
		if _, also := g.rollout.place[p.Steps[step].Unit]; also != ordered {
			return i
		}
	}
	return n
}

// queue tells the units that wait which wave they are in, counted from now.
func (g *grid) queue(p *Plan, turn []int, why string) {
	size := g.rollout.size(len(p.Steps))
	for wave := 1; len(turn) > 0; wave++ {
		n := g.wave(p, turn, size)
		text := fmt.Sprintf("in %d waves: %s", wave, why)
		if wave == 1 {
			text = "in the next wave: " + why
		}
		for _, i := range turn[:n] {
			p.Steps[i].wait(text)
		}
		turn = turn[n:]
	}
}
