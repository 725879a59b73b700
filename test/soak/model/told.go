package model

import (
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Told is what one node's agent was seen to know, and when.
type Told struct {
	// Options are those by which the node's agent looks at what it knows.
	Options topology.Options
	node    string
	entries map[ID][]entry // in order of time
}

// entry: from at on the agent knows that version.
type entry struct {
	at      time.Time
	version int
}

// NewTold begins with a node that knows nothing.
func NewTold(node string) *Told { return &Told{node: node, entries: map[ID][]entry{}} }

// Saw notes the snapshot that a node's agent has in force. What it has that
// the history has not, yet, is passed over; what a partial one lacks may exist
// all the same.
func (t *Told) Saw(h *History, at time.Time, snap *topology.Snapshot) {
	have := contents(snap)
	for id, list := range h.objects {
		v, ok := have[id]
		if !ok && snap.Partial {
			continue
		}
		i := len(list) - 1
		for i >= 0 && !h.equal(list[i], v) {
			i--
		}
		if i < 0 {
			continue
		}
		if known := t.entries[id]; len(known) == 0 || known[len(known)-1].version != i {
			t.entries[id] = append(known, entry{at, i})
		}
	}
}

// Behind names an object that a node's snapshot has otherwise than the API
// server has it now; nil for none.
func Behind(h *History, snap *topology.Snapshot) error {
	if snap.Partial {
		return fmt.Errorf("it has the last good state alone")
	}
	have := contents(snap)
	for id, list := range h.objects {
		if !h.equal(list[len(list)-1], have[id]) {
			return fmt.Errorf("it has %s otherwise than the API server", id)
		}
	}
	return nil
}

func contents(snap *topology.Snapshot) map[ID]version {
	have := map[ID]version{}
	for key, e := range snap.Services.All() {
		if e.Service != nil {
			have[ID{Service, key}] = version{service: e.Service}
		}
		for _, s := range e.Slices {
			have[ID{Slice, s.Key}] = version{slice: s}
		}
	}
	for name, n := range snap.Nodes.All() {
		have[ID{Node, topology.ObjectKey{Name: name}}] = version{node: n}
	}
	return have
}

// since is the oldest version of an object that may be in force on the node at
// some time between from and to: what it last knew before, or anything that it
// was seen to know meanwhile. An agent that starts again from its disk may
// know less than before.
func (t *Told) since(id ID, from, to time.Time) int {
	oldest := -1
	for _, e := range t.entries[id] {
		switch {
		case !e.at.After(from):
			oldest = e.version
		case !e.at.After(to):
			oldest = min(oldest, e.version)
		}
	}
	return max(oldest, 0)
}
