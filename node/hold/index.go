package hold

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// index knows which Services have the addresses that may be held, and the
// slices that these were in. It follows snapshots: the first costs all of them, each
// next what changed.
type index struct {
	addrs  map[netip.Addr]bool
	slices map[topology.ObjectKey]bool

	seen  *topology.Snapshot
	users map[netip.Addr][]topology.ObjectKey // Services, each once
	owner map[topology.ObjectKey]topology.ObjectKey
}

func newIndex(all map[topology.ObjectKey][]wanted) *index {
	x := &index{
		addrs: map[netip.Addr]bool{}, slices: map[topology.ObjectKey]bool{},
		users: map[netip.Addr][]topology.ObjectKey{}, owner: map[topology.ObjectKey]topology.ObjectKey{},
	}
	for _, list := range all {
		for _, w := range list {
			x.addrs[w.Addr], x.slices[w.slice.Key] = true, true
		}
	}
	return x
}

// follow brings the index in line with a snapshot.
func (x *index) follow(next *topology.Snapshot) {
	if x.seen == next {
		return
	}
	before := x.seen
	if before == nil {
		before = &topology.Snapshot{}
	}
	for key := range next.Changed(before) {
		if was, _ := before.Services.Get(key); was != nil {
			x.remove(key, was)
		}
		if is, _ := next.Services.Get(key); is != nil {
			x.add(key, is)
		}
	}
	x.seen = next
}

func (x *index) remove(key topology.ObjectKey, e *topology.Entry) {
	for _, slice := range e.Slices {
		if x.owner[slice.Key] == key { // it may be another's by now
			delete(x.owner, slice.Key)
		}
		for i := range slice.Endpoints {
			addr := slice.Endpoints[i].Addr
			if list, ok := x.users[addr]; ok {
				x.users[addr] = slices.DeleteFunc(list, func(o topology.ObjectKey) bool { return o == key })
			}
		}
	}
}

func (x *index) add(key topology.ObjectKey, e *topology.Entry) {
	for _, slice := range e.Slices {
		if x.slices[slice.Key] {
			x.owner[slice.Key] = key
		}
		for i := range slice.Endpoints {
			if addr := slice.Endpoints[i].Addr; x.addrs[addr] && !slices.Contains(x.users[addr], key) {
				x.users[addr] = append(x.users[addr], key)
			}
		}
	}
}
