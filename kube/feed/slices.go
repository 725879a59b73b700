package feed

import (
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/topology"
)

// slices are EndpointSlices. Triggers from before since tell nothing about
// this process: it was not there yet.
type slices struct{ since time.Time }

// slice is an EndpointSlice that may be of no use.
type slice struct {
	slice   *topology.Slice // nil: serves nothing
	trigger int64           // when its latest change began, in nanoseconds since 1970; 0 where that is of no interest
}

func (r slices) convert(s *discoveryv1.EndpointSlice) slice {
	out := slice{slice: convert.Slice(s)}
	if out.slice != nil {
		share(out.slice)
	}
	// The endpoint slice controller notes when the Service or pod changed that
	// it reacts to.
	at, err := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err == nil && at.After(r.since) {
		out.trigger = at.UnixNano()
	}
	return out
}

// share has equal names in memory once: of nodes there are few, of endpoints
// that name them many.
func share(s *topology.Slice) {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.Node = unique.Make(e.Node).Value()
	}
	for i := range s.Ports {
		s.Ports[i].Name = unique.Make(s.Ports[i].Name).Value()
	}
}

// weight is the number of endpoints: a list of slices without them is as
// empty as one without slices.
func (slices) weight(s *discoveryv1.EndpointSlice) int { return len(s.Endpoints) }

func (slices) set(b *topology.Builder, key topology.ObjectKey, s slice) bool {
	if s.slice == nil {
		return b.DeleteSlice(key)
	}
	changed := b.SetSlice(s.slice)
	if changed && s.trigger != 0 {
		b.AddTrigger(time.Unix(0, s.trigger))
	}
	return changed
}

func (slices) remove(b *topology.Builder, key topology.ObjectKey) bool { return b.DeleteSlice(key) }
