package feed

import (
	"time"
)

// speaks is how old the last word of a watch may be that speaks: an API server sends a bookmark
// about once a minute.
const speaks = 75 * time.Second

// Unheard returns the watches that say nothing of what endpoints there are and where: of which
// there was neither a list that was believed nor an event or bookmark since a time, or none lately,
// or which fail.
func (f *Feed) Unheard(since time.Time) (watches []string) {
	failing := f.failing()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for _, w := range f.all {
		at := f.spoke[w.name]
		if w.endpoints && (!at.After(since) || now.Sub(at) > speaks || failing[w.name] || f.doubted[w.name].Err != nil) {
			watches = append(watches, w.name)
		}
	}
	return watches
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
