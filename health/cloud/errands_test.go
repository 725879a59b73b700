package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Where nobody answers a few are tried at once, all have their turn, and none is tried again
// before it has rested.
func TestErrandsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work sync.WaitGroup
		e := newErrands("try", 30*time.Second, 5*time.Second, slog.New(slog.DiscardHandler), &work)
		var names []string
		for i := range 3 * parallel {
			names = append(names, fmt.Sprintf("n-%02d", i))
		}
		var mu sync.Mutex
		tries, under, most, last := map[string]int{}, 0, 0, map[string]time.Time{}
		for range 200 {
			e.collect(t.Context(), time.Now())
			for _, name := range e.turns(names) {
				e.begin(t.Context(), time.Now(), name, "try", func(ctx context.Context) error {
					mu.Lock()
					if rested := time.Since(last[name]); rested < 5*time.Second {
						t.Errorf("%s is tried again after %s", name, rested)
					}
					tries[name]++
					under++
					most = max(most, under)
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					defer mu.Unlock()
					under--
					last[name] = time.Now()
					return ctx.Err()
				}, func() { t.Error("it is done") })
			}
			time.Sleep(time.Second)
		}
		work.Wait()
		for _, name := range names {
			if tries[name] < 2 || tries[name] > 3 {
				t.Errorf("%s was tried %d times", name, tries[name])
			}
		}
		if most != parallel {
			t.Errorf("%d at once, want %d", most, parallel)
		}
	})
}

// Something else for a node needs no rest, and never runs beside what is under way.
func TestErrandsOfOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work sync.WaitGroup
		e := newErrands("try", 30*time.Second, 5*time.Second, slog.New(slog.DiscardHandler), &work)
		var done []string
		do := func(kind string, takes time.Duration, err error) {
			e.begin(t.Context(), time.Now(), "n", kind, func(context.Context) error { time.Sleep(takes); return err }, func() { done = append(done, kind) })
			synctest.Wait()
		}
		wait := func(d time.Duration) { time.Sleep(d); synctest.Wait(); e.collect(t.Context(), time.Now()) }
		do("one", 2*time.Second, nil)
		wait(time.Second)
		do("beside it", 0, nil)
		wait(time.Second)
		do("one", 0, nil) // it rests
		wait(time.Second)
		do("other", 0, errors.New("not now"))
		wait(time.Second)
		do("other", 0, nil) // it rests
		wait(5 * time.Second)
		do("other", 0, nil)
		wait(0)
		if got := fmt.Sprint(done); got != "[one other]" || e.busy != 0 {
			t.Errorf("%s were done, and %d are busy", got, e.busy)
		}
		e.forget(func(string) bool { return true })
		if len(e.of) > 0 {
			t.Error("who is gone is remembered")
		}
	})
}
