package feed

import (
	"sync"
	"time"
)

// Health is how the API server answers.
type Health struct {
	LastContact time.Time // when it last answered anything; zero: never
	Err         string    // its last failure, "" where it answered since
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
	f.Contacted(f.now())
}

// Health says how the API server answers. A link that is cut shows after 45 s
// at most, when the pings of HTTP/2 find out.
func (f *Feed) Health() Health {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	return Health{LastContact: f.LastContact(), Err: f.health.err}
}
