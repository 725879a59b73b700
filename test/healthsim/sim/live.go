package sim

import (
	"sync"
	"time"
)

// Live is a world whose agents have goroutines and timers of their own. Its time is the
// process's, which in a bubble of testing/synctest passes when all wait. A run of one seed is not
// the same twice: which goroutine comes first is not in the seed.
type Live struct {
	mu    sync.Mutex
	w     *World
	began time.Time
	wake  chan struct{}
}

// RunLive runs a protocol to the end of the configured time.
func RunLive(cfg Config, protocol func(l *Live, w *World) Protocol) (r Report) {
	l := &Live{w: New(cfg), began: time.Now(), wake: make(chan struct{}, 1)}
	l.w.what = protocol(l, l.w)
	l.Do((*World).boots)
	l.until(cfg.Warm)
	l.Do((*World).fails)
	l.until(cfg.Warm + cfg.Duration)
	l.Do(func(w *World) { r = w.report() })
	return r
}

// Do has an agent use the world. Neither may wait in it for the other.
func (l *Live) Do(f func(w *World)) {
	l.mu.Lock()
	l.w.now = max(l.w.now, time.Since(l.began))
	f(l.w)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// until has happen what happens before a time, when it does.
func (l *Live) until(end time.Duration) {
	for {
		now, next := time.Since(l.began), end
		l.mu.Lock()
		l.w.until(min(now, end))
		if len(l.w.queue) > 0 {
			next = min(next, l.w.queue[0].at)
		}
		l.mu.Unlock()
		if now >= end {
			return
		}
		timer := time.NewTimer(next - now)
		select {
		case <-timer.C:
		case <-l.wake:
		}
		timer.Stop()
	}
}
