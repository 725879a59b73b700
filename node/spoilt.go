package node

import (
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// spoilt is a Problem for which manifests are not believed as an agent starts; nil for none. While the disk
// has not told what a run before served, any is one where its rules are still in force: they are not given
// up for what is left. After a boot nothing is, and what is left is better than nothing.
func (l *loop) spoilt(snap *topology.Snapshot) *topology.Problem {
	switch {
	case l.restored != nil && hasAny(l.restored.Snapshot):
		return spoilt(snap, l.restored.Snapshot)
	case l.restored == nil && l.unread.state != nil && l.capture.Found():
		return spoilt(snap, nil)
	}
	return nil
}

// spoilt is a Problem for which manifests have something that a run before had otherwise, or not at
// all; nil where there is none. What was wrong then, too, and was served as far as it goes, is as it was.
// A nil before is one of which nobody knows what it had.
func spoilt(snap, before *topology.Snapshot) *topology.Problem {
	for i := range snap.Problems {
		if p := &snap.Problems[i]; p.Loss != topology.LostNothing && (before == nil || loses(p, snap, before)) {
			return p
		}
	}
	for key, e := range snap.Services.All() {
		if p := lostOf(entry(snap, key).Service.Problems); p != nil && (before == nil || changed(key, snap, before)) {
			return p
		}
		for _, s := range e.Slices {
			if p := lostOf(s.Problems); p != nil && (before == nil || missesSlice(s.Key, snap, before)) {
				return p
			}
		}
	}
	return nil
}

// entry is what there is of a Service; nothing in it where there is none.
func entry(snap *topology.Snapshot, key topology.ObjectKey) (is topology.Entry) {
	if e, there := snap.Services.Get(key); there {
		is = *e
	}
	if is.Service == nil {
		is.Service = &topology.Service{}
	}
	return is
}

// changed reports whether a Service was there, and is not as it was.
func changed(key topology.ObjectKey, snap, before *topology.Snapshot) bool {
	was := entry(before, key).Service
	return was.Key == key && !entry(snap, key).Service.Equal(was)
}

func lostOf(list []topology.Problem) *topology.Problem {
	for i := range list {
		if list[i].Loss != topology.LostNothing {
			return &list[i]
		}
	}
	return nil
}

// loses reports whether what a Problem is of was there before, and is not as it was. Of a file nobody
// knows what it has: it may be all that is missing.
func loses(p *topology.Problem, snap, before *topology.Snapshot) bool {
	kind, rest, _ := strings.Cut(p.Object, " ")
	name, _, _ := strings.Cut(rest, " ")
	switch kind {
	case "service":
		return changed(keyOf(name), snap, before)
	case "node":
		is, _ := snap.Nodes.Get(name)
		was, had := before.Nodes.Get(name)
		return had && (is == nil || !is.Equal(was))
	case "endpointslice":
		return missesSlice(keyOf(name), snap, before)
	}
	return misses(snap, before)
}

func keyOf(name string) topology.ObjectKey {
	namespace, name, _ := strings.Cut(name, "/")
	return topology.ObjectKey{Namespace: namespace, Name: name}
}

// missesSlice reports whether a slice was there, and is not as it was.
func missesSlice(key topology.ObjectKey, snap, before *topology.Snapshot) bool {
	for of, e := range before.Services.All() {
		for _, s := range e.Slices {
			if s.Key == key && other(s, entry(snap, of).Slices) {
				return true
			}
		}
	}
	return false
}

// other reports whether none of some slices is as one is.
func other(s *topology.Slice, list []*topology.Slice) bool {
	for _, o := range list {
		if o.Key == s.Key {
			return !o.Equal(s)
		}
	}
	return true
}

// misses reports whether anything that was there is not.
func misses(snap, before *topology.Snapshot) bool {
	for key, was := range before.Services.All() {
		is := entry(snap, key)
		if was.Service != nil && is.Service.Key != key || len(is.Slices) < len(was.Slices) {
			return true
		}
	}
	for name := range before.Nodes.All() {
		if _, there := snap.Nodes.Get(name); !there {
			return true
		}
	}
	return len(snap.ServiceCIDRs) < len(before.ServiceCIDRs)
}
