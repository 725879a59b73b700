package health

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/health/told"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// Others on the node are told who died and who is back, and again and again that the daemon
// lives; one that begins leaves for a while what the one before it told.
func TestTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		s.start(ctx, &all, s.unit(t, 5))
		path, log := filepath.Join(t.TempDir(), "made", "dead"), &testkit.Output{}
		tell := func(within context.Context) {
			all.Go(func() { _ = Tell(within, s.daemons["a-2"], path, slog.New(slog.NewTextHandler(log, nil))) })
		}
		read := func(when string) told.Word {
			t.Helper()
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w, err := told.Decode(data)
			if err != nil || w.Node != "a-2" || w.Unit != "a" || w.Members != 5 || time.Since(w.Written) > told.Every+tellEvery {
				t.Errorf("%s: %+v, %v", when, w, err)
			}
			return w
		}
		first, stop := context.WithCancel(ctx)
		tell(first)
		time.Sleep(3 * time.Minute)
		if w := read("all live"); len(w.Dead) > 0 {
			t.Errorf("all live: %+v", w)
		}
		s.kill("a-4")
		time.Sleep(time.Minute)
		dead := read("one died").Dead
		if len(dead) != 1 || dead[0].Node != "a-4" || time.Since(dead[0].Since) > time.Minute {
			t.Fatalf("one died: %+v", dead)
		}
		time.Sleep(time.Minute)
		if w := read("a minute later"); len(w.Dead) != 1 || !w.Dead[0].Since.Equal(dead[0].Since) {
			t.Errorf("a minute later: %+v, was %+v", w.Dead, dead)
		}
		stop()
		synctest.Wait()
		before, _ := os.ReadFile(path)
		tell(ctx)
		time.Sleep(s.daemons["a-2"].cfg.Vote.Fresh - time.Second)
		if now, _ := os.ReadFile(path); !slices.Equal(now, before) {
			t.Errorf("one that begins says at once %s", now)
		}
		time.Sleep(2 * time.Second)
		read("another daemon")
		must(t, os.RemoveAll(filepath.Dir(path)))
		must(t, os.WriteFile(filepath.Dir(path), nil, 0o600)) // where the directory is to be
		time.Sleep(time.Minute)
		if log.Count("cannot tell the other programs") != 1 {
			t.Errorf("a file in the way is told so: %s", log)
		}
		must(t, os.Remove(filepath.Dir(path)))
		time.Sleep(2 * tellEvery)
		read("out of the way")
		s.live("a-4")
		time.Sleep(2 * time.Minute)
		if w := read("it is back"); len(w.Dead) > 0 {
			t.Errorf("it is back: %+v", w)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
