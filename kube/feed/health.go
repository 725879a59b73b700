package feed

import (
	"sort"
	"sync"
	"time"
)

// Health is how the API server answers.
type Health struct {
	LastContact time.Time // when it last answered anything; zero: never
	Err         string    // its last failure, "" where the same watch was answered since
	Held        []string  // for each of its lists that is not believed, why
}

type health struct {
	mu      sync.Mutex
	failing []failure // of watches that fail, one each; the last is the latest
}

type failure struct{ watch, err string }

// note takes what came of a request of a watch, or a sign of life. What other watches
// are told says nothing of one that fails.
func (f *Feed) note(watch string, err error) {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	others := f.health.failing[:0]
	for _, o := range f.health.failing {
		if o.watch != watch {
			others = append(others, o)
		}
	}
	if err != nil {
		others = append(others, failure{watch, err.Error()})
	} else {
		f.Contacted(f.now())
	}
	f.health.failing = others
}

// Health says how the API server answers. A link that is cut shows after 45 s
// at most, when the pings of HTTP/2 find out.
func (f *Feed) Health() Health {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	h := Health{LastContact: f.LastContact(), Held: f.heldBack()}
	if n := len(f.health.failing); n > 0 {
		h.Err = f.health.failing[n-1].err
	}
	return h
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
