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
	err string
}

// note takes what came of a request, or a sign of life.
func (f *Feed) note(err error) {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	if err != nil {
		f.health.err = err.Error()
		return
	}
	f.health.err = ""
	f.Hear(f.now())
}

// Health tells how the API server answers. A link that is cut shows after 45 s
// at most, when the pings of HTTP/2 find out.
func (f *Feed) Health() Health {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	return Health{Heard: f.Heard(), Err: f.health.err}
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
