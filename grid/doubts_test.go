package grid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// What keeps a replica from its work is said after ten seconds, and again now
// and then; not what a start takes, and not what is over.
func TestDoubtsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Output
		silent := errors.New("the API server is X: nothing listens there")
		d := Doubts{
			Blame: func(err error) error { return fmt.Errorf("%w; of kubeconfig F: check it", err) },
			Reach: func(context.Context) error { return silent },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Tell(ctx, slog.New(slog.NewTextHandler(&out, nil))) }()
		told := func(after time.Duration, want int, what string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := strings.Count(out.String(), "level=ERROR"); got != want {
				t.Errorf("%s: told %d times, want %d:\n%s", what, got, want, out.String())
			}
		}
		if err := d.Now(); err != nil {
			t.Errorf("no doubts are %v", err)
		}
		d.Set("mirror", ErrNotKnown)
		told(8*time.Second, 0, "a start")
		d.Set("mirror", nil)
		told(20*time.Second, 0, "a start that is over")
		d.Set("mirror", ErrNotKnown)
		told(13*time.Second, 1, "silence")
		if text := out.String(); !strings.Contains(text, "nothing listens there") || strings.Contains(text, "of kubeconfig F") {
			t.Errorf("of silence it is told: %s", text)
		}
		d.Set("mirror", nil)
		told(2*time.Second, 1, "over")
		d.Set("mirror", ErrNotKnown)
		d.Ask(func() error { return errors.New("deploymentgrids is forbidden") })
		told(13*time.Second, 2, "forbidden")
		told(30*time.Second, 2, "within a minute")
		told(40*time.Second, 3, "after a minute")
		if text := out.String(); !strings.Contains(text, "deploymentgrids is forbidden") || !strings.Contains(text, "deploymentgrids is forbidden; of kubeconfig F: check it") {
			t.Errorf("told: %s", text)
		}
		d.Clear()
		told(time.Hour, 3, "after it is over")
		if !strings.Contains(out.String(), "nothing is in the way of grids any more") {
			t.Errorf("told: %s", out.String())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
