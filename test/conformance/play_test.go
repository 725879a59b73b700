package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/test/conformance/score"
)

// game is a player whose specs are functions here, in fake time.
type game struct {
	mu       sync.Mutex
	running  map[string]bool
	most     int
	outcomes map[string]score.Outcome
	took     map[int]bool // workers
}

func (g *game) player(state func(spec string) score.State) *player {
	g.running, g.outcomes, g.took = map[string]bool{}, map[string]score.Outcome{}, map[int]bool{}
	return &player{
		workers: 3, until: time.Now().Add(time.Hour), now: time.Now, say: func(string, ...any) {},
		run: func(ctx context.Context, worker int, spec string) (score.Outcome, error) {
			g.mu.Lock()
			g.running[spec], g.took[worker] = true, true
			g.most = max(g.most, len(g.running))
			g.mu.Unlock()
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return score.Outcome{}, ctx.Err()
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			if alone(spec) && len(g.running) != 1 {
				return score.Outcome{}, fmt.Errorf("%s ran beside %d", spec, len(g.running)-1)
			}
			delete(g.running, spec)
			return score.Outcome{Spec: spec, State: state(spec)}, nil
		},
		add: func(o score.Outcome) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if _, there := g.outcomes[o.Spec]; there {
				return fmt.Errorf("%s was run twice", o.Spec)
			}
			g.outcomes[o.Spec] = o
			return nil
		},
	}
}

func names(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("spec %d", i))
	}
	return list
}

func always(state score.State) func(string) score.State {
	return func(string) score.State { return state }
}

// Each spec is run once, beside others, but for those that must be alone; one
// that fails, and one that is not judged, stops none of the others.
func TestPlay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g game
		specs := append([]string{"x [Serial]", "y [Disruptive]"}, names(10)...)
		p := g.player(func(spec string) score.State {
			switch spec {
			case "spec 1":
				return score.Failed
			case "spec 2":
				return score.Absent
			}
			return score.Passed
		})
		if err := p.play(t.Context(), specs); err != nil {
			t.Fatal(err)
		}
		if len(g.outcomes) != len(specs) || g.most != 3 || len(g.took) != 3 {
			t.Errorf("%d of %d specs came to something, %d at a time, with %d workers", len(g.outcomes), len(specs), g.most, len(g.took))
		}
	})
}

// A cluster on which nothing is judged any more is not asked for hours.
func TestPlayOnABrokenCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g game
		start := time.Now()
		if err := g.player(always(score.Absent)).play(t.Context(), names(100)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); len(g.outcomes) != 100 || took > 5*time.Minute {
			t.Errorf("%d of 100 specs are told, after %s", len(g.outcomes), took)
		}
		if o := g.outcomes["spec 99"]; o.State != score.Absent || !strings.Contains(o.Why, "not begun") {
			t.Errorf("%+v", o)
		}
	})
}

// When the time is over, none begins, and each is told.
func TestPlayOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g game
		p := g.player(always(score.Passed))
		p.until = time.Now().Add(90 * time.Second)
		if err := p.play(t.Context(), names(20)); err != nil {
			t.Fatal(err)
		}
		passed := 0
		for _, o := range g.outcomes {
			if o.State == score.Passed {
				passed++
			}
		}
		if passed != 6 || len(g.outcomes) != 20 {
			t.Errorf("%d passed in the time of 6; %d of 20 are told", passed, len(g.outcomes))
		}
	})
}

// A run that somebody ends says nothing of the specs that ran then.
func TestPlayEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g game
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		err := g.player(always(score.Passed)).play(ctx, names(20))
		if !errors.Is(err, context.DeadlineExceeded) || len(g.outcomes) != 3 {
			t.Errorf("%v; %d came to something", err, len(g.outcomes))
		}
	})
}

// An outcome that cannot be kept ends the run with the reason.
func TestPlayWithAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g game
		p, full := g.player(always(score.Passed)), errors.New("no space left")
		p.add = func(score.Outcome) error { return full }
		if err := p.play(t.Context(), names(20)); !errors.Is(err, full) {
			t.Errorf("%v", err)
		}
	})
}

func TestExitCode(t *testing.T) {
	if got := exitCode(fmt.Errorf("run: %w", context.Canceled)); got != interrupted {
		t.Errorf("a run that was ended exits with %d", got)
	}
	if got := exitCode(errWorse); got != 1 {
		t.Errorf("one with something worse exits with %d", got)
	}
}
