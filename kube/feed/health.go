package feed

import (
	"errors"
	"sort"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube"
)

// Health is how the API server answers.
type Health struct {
	LastContact time.Time // when it last answered anything; zero: never
	Err         string    // the last failure of the watch that fails the longest; "" for none
	Since       time.Time // of Err: when that watch began to fail
	Refused     time.Time // of Err: since when it knows not who asks, or does not permit it; zero: it does
	Held        []string  // for each of its lists that is not believed, why
}

type health struct {
	mu      sync.Mutex
	failing []failure // of watches that fail, one each, in the order in which they began to
}

// What a watch asks for. A list is answered where none may be watched, too: each fails by itself,
// and a watch that goes on wants no list.
type verb string

const (
	verbList  verb = "list"
	verbWatch verb = "watch"
)

type failure struct {
	watch string
	verb  verb
	err   error
	since time.Time
	kind  time.Time // since when it is refused, or is not
}

// note takes what came of a request of a watch, or a sign of life. What other watches
// are told says nothing of one that fails.
func (f *Feed) note(watch string, verb verb, err error) {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	now, others := f.now(), f.health.failing[:0]
	is, known := failure{watch, verb, err, now, now}, false
	for _, o := range f.health.failing {
		known = known || o.watch == watch && isRefusal(o.err) // one that may be listed alone is refused and answered in turn
		switch {
		case o.watch == watch && o.verb == verb:
			if is.since = o.since; isRefusal(o.err) == isRefusal(err) {
				is.kind = o.kind
			}
		case o.watch == watch && err == nil && verb == verbWatch:
		default:
			others = append(others, o)
		}
	}
	if isRefusal(err) && !known {
		f.log.Warn("the API server refuses what this agent asks for; see that its credentials are valid, and have the rights that deploy/ gives it", obs.KeyWatch, watch, obs.KeyErr, err)
	}
	if err == nil {
		f.Contacted(now)
	} else {
		others = append(others, is)
		sort.SliceStable(others, func(i, j int) bool { return others[i].since.Before(others[j].since) })
	}
	f.health.failing = others
}

// Health says how the API server answers. A link that is cut shows after 45 s
// at most, when the pings of HTTP/2 find out.
func (f *Feed) Health() Health {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	h := Health{LastContact: f.LastContact(), Held: f.heldBack()}
	if len(f.health.failing) > 0 {
		first := f.health.failing[0]
		now := f.now()
		byNow := func(at time.Time) time.Time { return now.Add(-now.Sub(at)) } // by the clock as it is set now
		h.Err, h.Since = first.err.Error(), byNow(first.since)
		if unread := (*kube.Unread)(nil); errors.As(first.err, &unread) { // of a request to nowhere
			h.Err = unread.Error()
		}
		if isRefusal(first.err) {
			h.Refused = byNow(first.kind) // while it starts it may refuse who waited for it
		}
	}
	return h
}

// isRefusal reports whether the API server knows not who asks, or does not permit it.
func isRefusal(err error) bool { return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) }

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
		if err := f.doubted[w.name].Err; err != nil {
			why = append(why, err.Error())
		}
	}
	return why
}
