package hold

import (
	"maps"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// witness is an endpoint of a Service that base has, about which the cloud was
// not believed in this hold: what it tells about the same program under the name
// of a Service that base does not have.
type witness struct {
	wanted
	since time.Time // when it was first held
	// begins: it is held, and the cloud lists it as not ready. One that is gone
	// has an address that may be another pod's by now, and one that is listed as
	// ready whatever its pod says (publishNotReadyAddresses) tells nothing.
	begins bool
	serves bool // it is held, or ready again
}

// mostTold bounds what an Apply takes from witnesses: who is let write makes as
// many Services over the same pods as the cloud takes. Services that come behind
// it in order are as the cloud says.
const mostTold = 10_000

// newServices has Services that were made meanwhile agree with those that base
// has. What is ready is a program at a port of an address of a node, for
// whichever Service: one that is held for one Service of a namespace, and that
// the cloud lists as not ready for a new one of the same namespace, is held for
// both. Otherwise who is told by the cloud to use the new one, as a gateway is,
// would be refused by what has served all along.
//
// A port counts, for pods with hostNetwork share the address of their node. A
// Service that was deleted tells nothing: that is somebody's command.
func (s *step) newServices(kept map[topology.ObjectKey]*made) {
	if len(s.since) == 0 && len(s.back) == 0 {
		return
	}
	for id := range s.since {
		if is := s.isNew(id.Service); is != nil && s.said(id.Service, is).of(id.place()).good {
			s.spoke(id)
		}
	}
	for key, told := range s.testimony(kept) {
		if m := s.agree(key, told); m != nil {
			kept[key] = m
		}
	}
}

// testimony is what is told about each new Service, by place.
func (s *step) testimony(kept map[topology.ObjectKey]*made) map[topology.ObjectKey]map[place][]witness {
	told, n := map[topology.ObjectKey]map[place][]witness{}, 0
	for _, key := range slices.SortedFunc(maps.Keys(s.may), topology.ObjectKey.Compare) {
		held := kept[key].set()
		for _, w := range s.may[key] {
			tells, ok := s.witness(key, w, held)
			if !ok {
				continue
			}
			s.index.follow(s.next)
			for _, other := range s.index.users[w.Addr] {
				if other.Namespace != key.Namespace || s.isNew(other) == nil {
					continue
				}
				if n++; n > mostTold {
					return told
				}
				if told[other] == nil {
					told[other] = map[place][]witness{}
				}
				at := w.id(key).place()
				told[other][at] = append(told[other][at], tells)
			}
		}
	}
	return told
}

// set is what is held of a Service; m may be nil.
func (m *made) set() map[Endpoint]bool {
	if m == nil {
		return nil
	}
	set := make(map[Endpoint]bool, len(m.held))
	for _, id := range m.held {
		set[id] = true
	}
	return set
}

// isNew returns a Service that was not there before, and is not left to others;
// nil for all else.
func (s *step) isNew(key topology.ObjectKey) *topology.Entry {
	is, _ := s.next.Services.Get(key)
	if was, _ := s.base.Services.Get(key); was != nil && was.Service != nil || is == nil || is.Service == nil || is.Service.Foreign {
		return nil
	}
	return is
}

// witness is what an endpoint of base tells, false where the cloud was always
// believed about it; held is what is held of its Service.
func (s *step) witness(key topology.ObjectKey, w wanted, held map[Endpoint]bool) (witness, bool) {
	id := w.id(key)
	since, doubted := s.since[id]
	is, _ := s.next.Services.Get(key)
	if !doubted && !s.back[id] || is == nil || is.Service == nil {
		return witness{}, false
	}
	said := s.said(key, is).of(id.place())
	return witness{
		wanted: w, since: since,
		begins: held[id] && said.listed && !said.ready,
		serves: held[id] || said.good,
	}, true
}

// agree is a new Service as witnesses have it, nil where nothing of it is held.
func (s *step) agree(key topology.ObjectKey, told map[place][]witness) *made {
	is := s.isNew(key)
	m, edit, said, seen := &made{of: is}, newEdit(is), s.said(key, is), map[Endpoint]bool{}
	for i, slice := range is.Slices {
		for j := range slice.Endpoints {
			e := &slice.Endpoints[j]
			id := Endpoint{key, e.Addr, e.Node}
			if said.of(id.place()).good || s.back[id] || !s.agreed(id, slice, told[id.place()]) {
				continue
			}
			e = &edit.slice(i).Endpoints[j]
			e.Ready, e.Serving, e.Terminating = true, true, false
			if !seen[id] {
				seen[id], m.held = true, append(m.held, id)
			}
		}
	}
	if len(m.held) == 0 {
		return nil
	}
	if last := s.made[key]; last != nil && last.of == is && slices.Equal(last.held, m.held) {
		return last
	}
	m.entry = &edit.entry
	return m
}

// agreed reports whether an endpoint of a new Service is held, and notes since
// when. Once it is, it is for as long as what it began with serves: slices of
// two Services do not come at once.
func (s *step) agreed(id Endpoint, slice *topology.Slice, told []witness) bool {
	since, had := s.since[id]
	begins, serves := had, false
	for _, w := range told {
		if !within(slice.Ports, w.slice.Ports) {
			continue
		}
		if w.begins && !had && (!begins || w.since.Before(since)) {
			since, begins = w.since, true
		}
		serves = serves || w.serves
	}
	if !begins || !serves {
		return false
	}
	s.since[id] = since
	return s.now.Before(s.release(id))
}

// within reports whether all ports are among others. No ports are those of a
// headless Service without any.
func within(ports, others []topology.SlicePort) bool {
	if len(ports) == 0 {
		return len(others) == 0
	}
	return !slices.ContainsFunc(ports, func(p topology.SlicePort) bool {
		return !slices.ContainsFunc(others, func(o topology.SlicePort) bool { return o.Protocol == p.Protocol && o.Port == p.Port })
	})
}
