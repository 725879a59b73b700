package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Watches that end at once are begun more and more slowly, one that lasted is
// followed at once, and so is one that was ended on purpose.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		waits := func(want time.Duration) {
			t.Helper()
			begin := time.Now()
			if err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got != want {
				t.Errorf("waited %s, want %s", got, want)
			}
			p.Opened()
		}
		waits(0)
		for _, want := range []time.Duration{200, 400, 800, 1600, 3200, 5000, 5000} {
			waits(want * time.Millisecond)
		}
		time.Sleep(shortWatch)
		waits(0)
		waits(firstPause)
		p.Forget()
		waits(0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}
