package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// missing is what is not in order: a check of a node, or of the cluster where
// node is "".
type missing struct {
	node, check string
	err         error
}

func (m *missing) Error() string { return fmt.Sprintf("%s: %v", m.what(), m.err) }
func (m *missing) Unwrap() error { return m.err }

func (m *missing) what() string {
	if m.node == "" {
		return m.check
	}
	return m.node + ", " + m.check
}

// waited is what a wait was for, one spell after the other.
type waited struct {
	begin  time.Time
	spells []spell
}

// spell is a time in which every look failed at the same check.
type spell struct {
	what     string
	from, to time.Duration
	last     error
}

// until waits until look finds nothing. What run reports does not come back by
// itself, and ends the wait.
func (w *waited) until(ctx context.Context, run func() error, look func(context.Context) error) (took time.Duration, err error) {
	w.begin = time.Now()
	var over error
	ended := func() bool { over = run(); return over != nil }
	err = wait.Until(ctx, func() error {
		if ended() {
			return nil
		}
		err := look(ctx)
		if err != nil && (ctx.Err() == nil || len(w.spells) == 0) { // and not what the end of ctx made of it
			w.saw(err)
		}
		return err
	})
	if over != nil {
		err = over
	}
	return time.Since(w.begin), err
}

func (w *waited) saw(err error) {
	now := time.Since(w.begin)
	what := "another check"
	var m *missing
	if errors.As(err, &m) {
		what, err = m.what(), m.err
	}
	if n := len(w.spells); n == 0 || w.spells[n-1].what != what {
		w.spells = append(w.spells, spell{what: what, from: now})
	}
	s := &w.spells[len(w.spells)-1]
	s.to, s.last = now, err
}

const (
	longWait  = time.Minute // from then on it is told what was waited for
	lastFew   = 5           // spells that are told
	errorText = 400         // bytes of each
)

// String is one line, for a summary is made of lines: the last spells, the
// newest first.
func (w *waited) String() string {
	if len(w.spells) == 0 {
		return "no look failed, and one took all that time"
	}
	var b strings.Builder
	for i := len(w.spells) - 1; i >= max(0, len(w.spells)-lastFew); i-- {
		s := w.spells[i]
		text := strings.Join(strings.Fields(s.last.Error()), " ")
		fmt.Fprintf(&b, "; from %s to %s for %s: %s", s.from.Round(time.Second/10), s.to.Round(time.Second/10), s.what, text[:min(len(text), errorText)])
	}
	if n := len(w.spells) - lastFew; n > 0 {
		fmt.Fprintf(&b, "; before that for %d more", n)
	}
	return "last waited" + b.String()[1:]
}

// unlessShort is what a wait was for, where it was a long one.
func (w *waited) unlessShort(took time.Duration) string {
	if took < longWait {
		return ""
	}
	return "; " + w.String()
}
