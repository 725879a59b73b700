package health

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health/vote"
)

// A loop that is stuck is not live, and one that has nothing to do is, with the longest rounds.
func TestALoopThatHangs(t *testing.T) {
	for _, every := range []time.Duration{10 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			cfg := vote.Default("a-1")
			cfg.Every, cfg.Fresh, cfg.Renew, cfg.Word = every, 3*every, 6*every, 6*every
			d, err := New(Config{cfg, slog.New(slog.DiscardHandler), nil}, nil, nil, NewMetrics(prometheus.NewRegistry()))
			if err != nil {
				t.Fatal(err)
			}
			live := func(when string, want error) {
				t.Helper()
				if got := d.Live(); !errors.Is(got, want) || (got == nil) != (want == nil) {
					t.Errorf("%s: %v, want %v", when, got, want)
				}
			}
			live("it has not begun", nil)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = d.Run(ctx) }()
			for range 100 {
				time.Sleep(every / 7)
				live("nothing happens", nil)
			}
			free := make(chan struct{})
			d.later(ctx, func(time.Time) { <-free })
			time.Sleep(hangsAfter)
			live("it is busy", nil)
			time.Sleep(3 * every)
			live("it is stuck", ErrHangs)
			close(free)
			synctest.Wait()
			live("it goes on", nil)
			cancel()
			<-ended
		})
	}
}
