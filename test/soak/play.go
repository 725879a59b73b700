package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/test/soak/script"
)

// Violation is what must not happen, and did.
type Violation struct {
	Judge string        // which of the judges says so
	At    time.Duration // of the step before it
	Text  string
}

func (v *Violation) Error() string { return v.Judge + ": " + v.Text }

// deed is what a verb does. What it returns mends it; nil: there is nothing to
// mend. A deed whose target is busy already returns errBusy and does nothing.
type deed func(s *Soak, ctx context.Context, args []string) (mend func() error, err error)

// errBusy: something else is being done to the same target.
var errBusy = errors.New("left out: something is being done there already")

// ending is something to mend, at a time since the start of the list.
type ending struct {
	at   time.Duration
	what string
	mend func() error
}

// Play does what the steps say, each in its time, and judges at every calm and
// at the end. The error is a *Violation where something happened that must
// not, and something else where the run could not be made.
func (s *Soak) Play(ctx context.Context, steps []script.Step) error {
	if len(steps) == 0 || steps[len(steps)-1].Verb != script.Calm {
		steps = append(slices.Clone(steps), script.Step{At: end(steps), Verb: script.Calm})
	}
	start := time.Now()
	for _, step := range steps {
		if err := s.until(ctx, start, step.At); err != nil {
			return err
		}
		s.say("%s", step)
		if step.Verb == script.Calm {
			began := time.Now()
			if err := s.calm(ctx); err != nil {
				return at(step.At, err)
			}
			start = start.Add(time.Since(began)) // the list's time stood still
			continue
		}
		if err := s.do(ctx, start, step); err != nil {
			return at(step.At, err)
		}
	}
	return nil
}

func end(steps []script.Step) time.Duration {
	if len(steps) == 0 {
		return 0
	}
	return steps[len(steps)-1].At
}

// at notes in a violation when it was found.
func at(t time.Duration, err error) error {
	var v *Violation
	if errors.As(err, &v) {
		v.At = t
	}
	return err
}

// until waits for a time of the list, and mends what is due before.
func (s *Soak) until(ctx context.Context, start time.Time, t time.Duration) error {
	for {
		next, due := t, false
		if len(s.pending) > 0 && s.pending[0].at <= t {
			next, due = s.pending[0].at, true
		}
		select {
		case <-time.After(time.Until(start.Add(next))):
		case <-ctx.Done():
			return ctx.Err()
		}
		if !due {
			return nil
		}
		if err := s.mendNext(); err != nil {
			return err
		}
	}
}

func (s *Soak) mendNext() error {
	e := s.pending[0]
	s.pending = s.pending[1:]
	err := e.mend()
	if errors.Is(err, errBusy) { // by what will be mended itself
		e.at += time.Second
		s.later(e)
		return nil
	}
	if err != nil {
		return fmt.Errorf("mend %s: %w", e.what, err)
	}
	return nil
}

// later has something mended in its time.
func (s *Soak) later(e ending) {
	s.pending = append(s.pending, e)
	slices.SortStableFunc(s.pending, func(a, b ending) int { return cmp.Compare(a.at, b.at) })
}

// do does one step. That the API server does not take an edit, for it is away,
// is no failure: the edit is left out.
func (s *Soak) do(ctx context.Context, start time.Time, step script.Step) error {
	f, ok := deeds[step.Verb]
	if !ok {
		return fmt.Errorf("%s: nothing is known to be done", step)
	}
	s.tally.deeds++
	mend, err := f(s, ctx, step.Args)
	var left *leftOut
	switch {
	case errors.Is(err, errBusy), errors.As(err, &left):
		s.tally.leftOut++
		s.say("  %v", err)
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", step, err)
	case mend == nil:
		return nil
	}
	s.later(ending{time.Since(start) + lasts(step), step.String(), mend})
	return nil
}

// lasts is how long a step lasts: as it says, or what its kind needs.
func lasts(step script.Step) time.Duration {
	if d := step.For(); d > 0 {
		return d
	}
	if step.Verb == "darken" {
		return darkFor
	}
	return repairWithin
}

const (
	// darkFor outlasts the controller manager's patience, and the times of its looks.
	darkFor = nodeGrace + 15*time.Second
	// repairWithin is how long an agent may take to see and put back what
	// others removed: five seconds on a quiet machine.
	repairWithin = 15 * time.Second
)

// leftOut is an edit that the API server did not take.
type leftOut struct{ err error }

func (l *leftOut) Error() string { return "left out: " + l.err.Error() }

// calm mends everything, waits until all is in order, and judges.
func (s *Soak) calm(ctx context.Context) error {
	for len(s.pending) > 0 {
		if err := s.mendNext(); err != nil {
			return err
		}
	}
	err := s.settle(ctx)
	for _, ends := range s.untilCalm {
		ends()
	}
	s.untilCalm = nil
	if err != nil {
		// What was seen until then says more than that it does not settle.
		return errors.Join(s.judge(), err)
	}
	return s.judge()
}

// take marks targets as busy, all or none.
func (s *Soak) take(targets ...string) bool {
	if slices.ContainsFunc(targets, func(t string) bool { return s.busy[t] }) {
		return false
	}
	for _, t := range targets {
		s.busy[t] = true
	}
	return true
}

func (s *Soak) free(targets ...string) {
	for _, t := range targets {
		delete(s.busy, t)
	}
}

// trouble begins something that excuses failures on nodes; what it returns
// ends it.
func (s *Soak) trouble(effect model.Effect, nodes ...string) (ends func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := len(s.troubles)
	for _, node := range nodes {
		s.troubles = append(s.troubles, model.Trouble{Node: node, Effect: effect, From: time.Now()})
	}
	last := len(s.troubles)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := first; i < last; i++ {
			s.troubles[i].To = time.Now()
		}
	}
}
