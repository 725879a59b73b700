package envoy

import (
	"time"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/admin"
)

const (
	// maxCounted is how many Services have connection metrics of their own.
	maxCounted = 100
	// countIdle is how long one without connections keeps its place from
	// others, where there are more of them.
	countIdle = time.Hour
	// otherServices gathers those without; no Service is called that, for they
	// have a slash.
	otherServices = "other"
)

// traffic counts connections by Service.
type traffic struct {
	*admin.Traffic
	busy map[string]busy
}

// busy is a Service with counters of its own.
type busy struct {
	key topology.ObjectKey
	at  time.Time // when it last had connections
}

func newTraffic() *traffic {
	return &traffic{admin.NewTraffic(maxCounted), map[string]busy{}}
}

// take adds what Envoy says, and returns the clusters that had connections
// since the last time.
func (t *traffic) take(uses []admin.Use, known *InForce, now time.Time) (used []string) {
	t.forget(known.View, now)
	used = t.Take(uses, func(cluster string) string {
		if entry, ok := known.Catalog.Entry(cluster); ok {
			return entry.Service.String()
		}
		return ""
	})
	totals := t.Totals()
	for _, cluster := range used {
		entry, _ := known.Catalog.Entry(cluster)
		name := entry.Service.String()
		if _, has := totals[name]; has {
			t.busy[name] = busy{entry.Service, now}
		}
	}
	return used
}

// forget makes room: of Services that are gone, and, where others want it, of
// those that are idle.
func (t *traffic) forget(view *topology.View, now time.Time) {
	_, full := t.Totals()[admin.Other]
	for name, c := range t.busy {
		if _, there := view.Service(c.key); !there || full && now.Sub(c.at) > countIdle {
			delete(t.busy, name)
		}
	}
	t.Forget(func(service string) bool { _, keep := t.busy[service]; return keep })
}
