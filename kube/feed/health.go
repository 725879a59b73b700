package feed

import (
	"sort"
	"sync"
	"time"
)

// Health is how the API server answers.
type Health struct {
	LastContact time.Time // when it last answered anything; zero: never
	Err         string    // its last failure, "" where it answered since
	Held        []string  // for each of its lists that is not believed, why
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
	return Health{LastContact: f.LastContact(), Err: f.health.err, Held: f.heldBack()}
}

// Waiting returns the watches without a first list: nothing is published while
// there is one.
func (f *Feed) Waiting() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var watches []string
	for watch := range f.missing {
		watches = append(watches, watch)
	}
	sort.Strings(watches)
	return watches
}

func (f *Feed) heldBack() (why []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.all {
		if err := f.doubted[w.name].err; err != nil {
			why = append(why, err.Error())
		}
	}
	return why
}
