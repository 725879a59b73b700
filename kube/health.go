package kube

import (
	"sync"
	"time"
)

// Health is how the API server answers.
type Health struct {
	Heard time.Time `json:"heard,omitzero"`  // when it last answered anything; zero: never
	Err   string    `json:"error,omitempty"` // its last failure, "" where it answered since
}

type health struct {
	mu  sync.Mutex
	now Health
}

func (h *health) note(at time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.now.Err = err.Error()
		return
	}
	h.now = Health{Heard: at}
}

// Health tells how the API server answers. A link that is cut shows after 45 s
// at most, when the pings of HTTP/2 find out.
func (f *Feed) Health() Health {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	return f.health.now
}

// triggers are the times at which the changes of published slices began, as
// the endpoint slice controller notes them. Those from before the start tell
// nothing about this process.
type triggers struct {
	since time.Time
	list  []time.Time
}

// add is called with the feed's lock held.
func (t *triggers) add(annotation string) {
	const most = 10_000
	at, err := time.Parse(time.RFC3339Nano, annotation)
	if err == nil && at.After(t.since) && len(t.list) < most {
		t.list = append(t.list, at)
	}
}

// Triggers returns, once, when the changes gathered so far began.
func (f *Feed) Triggers() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.triggers.list
	f.triggers.list = nil
	return list
}
