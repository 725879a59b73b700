package feed

import (
	"time"
)

// speaks is how old the last word of a watch may be that speaks: an API server sends a bookmark
// about once a minute.
const speaks = 75 * time.Second

// Unheard returns the watches that say nothing of what endpoints there are and where: of which
// there was neither a list that was believed nor an event or bookmark since a time, or none lately,
// or which fail. Who asks waits for them: what is late with its word is listed then.
func (f *Feed) Unheard(since time.Time) (watches []string) {
	failing := f.failing()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if !f.waits.since.Equal(since) {
		f.waits = waits{since: since, began: now, asked: map[string]time.Time{}}
	}
	for _, w := range f.all {
		at, again := f.spoke[w.name], failing[w.name] || f.doubted[w.name].Err != nil
		if !w.endpoints || at.After(since) && now.Sub(at) <= speaks && !again {
			continue
		}
		watches = append(watches, w.name)
		if !again && f.waits.due(w.name, at, now) { // else it is asked for again already
			w.again.Late(asksWithin * f.look)
		}
	}
	return watches
}

// asksWithin is how long a list waits that somebody waits for, and up to a fifth more, in looks:
// many nodes may wait since the same moment.
const asksWithin = 10

// waits is what somebody waits for, since a time.
type waits struct {
	since, began time.Time
	asked        map[string]time.Time // when a watch was to list, the last time
}

// due reports whether a watch is to list now, for it is late with a bookmark: who ends watches
// before their time, as a proxy may, lets none come, and that a watch begins says nothing of
// what is missing; nor does an API server whose memory is behind. A list is as of now.
func (w *waits) due(watch string, spoke, now time.Time) bool {
	last := spoke
	if !spoke.After(w.since) {
		last = w.began
	}
	if asked := w.asked[watch]; asked.After(last) {
		last = asked
	}
	if now.Sub(last) <= speaks {
		return false
	}
	w.asked[watch] = now
	return true
}

// Silent returns the watches that stay open and say nothing, sorted: what they are for is listed
// again and again instead. An API server that sends no bookmarks, where nothing changes, looks the same.
func (f *Feed) Silent() (watches []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.all {
		if !w.again.Silent().IsZero() {
			watches = append(watches, w.name)
		}
	}
	return watches
}

// told notes an event or a bookmark of a watch.
func (f *Feed) told(watch string) {
	f.note(watch, verbWatch, nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoke[watch] = f.now()
	f.showHeard(watch)
}

// showHeard has the metric show the last word of a watch.
func (f *Feed) showHeard(watch string) {
	f.metrics.heard.WithLabelValues(watch).Set(float64(f.spoke[watch].UnixMilli()) / 1e3)
}

func (f *Feed) failing() map[string]bool {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	failing := map[string]bool{}
	for _, o := range f.health.failing {
		failing[o.watch] = true
	}
	return failing
}
