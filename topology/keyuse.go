package topology

import (
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/internal/near"
)

// mostMistaken bounds the keys that no node has which are told with the label that may be meant.
// Any tenant may put keys onto a Service, and any kubelet labels onto its own Node, and the two
// are compared each with each: of keys the first by alphabet, and of labels (near.MostMeant) those
// that most nodes have. A unit's key is one of these.
const mostMistaken = 64

// keyUse is which topology keys Services use, and which labels nodes have. What follows from
// both is found anew where one came or went, and not at each change.
type keyUse struct {
	services map[string]int // key -> number of Services
	nodes    map[string]int // label -> number of nodes that have a value of it
	known    bool           // there are nodes, and all of them are known

	inUse  []string          // the keys, sorted
	absent map[string]string // of these those that no node has, with the label that may be meant or ""
	meant  map[string]string // label that may be meant, by key; of the labels as they are
	sorted bool              // inUse is as it should be
	looked bool              // absent is
}

func newKeyUse() *keyUse {
	return &keyUse{services: map[string]int{}, nodes: map[string]int{}, sorted: true}
}

// useKey counts a key of a Service that came, or with n < 0 went.
func (u *keyUse) useKey(key string, n int) {
	was := u.services[key]
	if u.services[key] = was + n; was+n == 0 {
		delete(u.services, key)
	}
	if was == 0 || was+n == 0 {
		u.sorted, u.looked = false, false
	}
}

// relabel takes a node as it was and is; nil for none.
func (u *keyUse) relabel(was, is *Node) {
	var before, now map[string]string
	if was != nil {
		before = was.Labels
	}
	if is != nil {
		now = is.Labels
	}
	if maps.Equal(before, now) {
		return
	}
	for label, value := range before {
		if value != "" && now[label] == "" {
			u.countLabel(label, -1)
		}
	}
	for label, value := range now {
		if value != "" && before[label] == "" { // by an empty value it is in no unit
			u.countLabel(label, 1)
		}
	}
}

func (u *keyUse) countLabel(label string, n int) {
	if u.nodes[label] += n; u.nodes[label] == 0 {
		delete(u.nodes, label)
	}
	u.looked, u.meant = false, nil
}

// settle takes whether all nodes are known: of a partial snapshot, and one without nodes,
// nobody can tell which keys no node has.
func (u *keyUse) settle(known bool) {
	if !u.sorted {
		u.inUse, u.sorted = slices.Sorted(maps.Keys(u.services)), true
	}
	if u.looked && u.known == known {
		return
	}
	u.known, u.looked, u.absent = known, true, map[string]string{}
	if !known {
		return
	}
	before := u.meant
	u.meant = map[string]string{}
	var labels []string
	for _, key := range u.inUse {
		if u.nodes[key] > 0 {
			continue
		}
		if u.absent[key] = ""; len(u.absent) > mostMistaken {
			continue
		}
		meant, looked := before[key]
		if !looked {
			if labels == nil {
				labels = near.Common(u.nodes, near.MostMeant)
			}
			meant = near.Word(key, labels)
		}
		u.absent[key], u.meant[key] = meant, meant
	}
}
