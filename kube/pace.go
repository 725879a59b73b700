package kube

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watch that ended within shortWatch is followed by a pause, doubled up to
// longestPause: client-go begins the next one at once where the one before told
// anything, a bookmark for example.
const (
	shortWatch   = time.Second
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
)

// Pace keeps watches that do not last from being begun as fast as an API
// server, or a proxy before it, ends them. The zero value has seen none.
type Pace struct {
	mu     sync.Mutex
	opened time.Time // the watch before
	pause  time.Duration
}

// Wait is called before a watch is begun, and Opened once it is.
func (p *Pace) Wait(ctx context.Context) error {
	p.mu.Lock()
	if time.Since(p.opened) >= shortWatch {
		p.pause = 0
	} else {
		p.pause = min(max(2*p.pause, firstPause), longestPause)
	}
	pause := p.pause
	p.mu.Unlock()
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Outdated reports whether an API server does not take the version that it was asked for, after which
// client-go asks for the newest without a pause: note it as Opened.
func Outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// Opened notes that a watch begins.
func (p *Pace) Opened() { p.set(time.Now()) }

// Forget forgets the watch before: it was ended on purpose, and might have
// lasted.
func (p *Pace) Forget() { p.set(time.Time{}) }

func (p *Pace) set(opened time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = opened
}
