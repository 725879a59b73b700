package cloud

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/health/shield"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// steps has time go by as Run does, and returns how often the table was written.
func (r *rig) steps(d time.Duration) int {
	r.t.Helper()
	before := r.on.tables
	for range int(d / time.Second) {
		r.now = r.now.Add(time.Second)
		r.renew()
		r.step(r.t.Context(), r.now)
		r.work.Wait()
	}
	return r.on.tables - before
}

// moves gives a node another unit; "" has it go.
func (r *rig) moves(name, unit string) {
	n := r.n[name]
	n.unit, r.n[name] = unit, n
	if r.world.setNode(r.now, name, n, unit == "") {
		r.units.changed = true
	}
}

// The table of units is written whole, once something in it changed and not otherwise, a few
// times a minute at most.
func TestTheTableOfUnits(t *testing.T) {
	r := newRig(t)
	r.units.found(nil)
	is := func(when string, want map[string]string) {
		t.Helper()
		if !maps.Equal(r.on.table, want) {
			t.Errorf("%s: the table is %v, want %v", when, r.on.table, want)
		}
	}
	if n := r.steps(time.Minute); n != 1 {
		t.Errorf("at first it is written %d times in a minute", n)
	}
	is("all are in it", map[string]string{"a-1": "a", "a-2": "a", "a-3": "a"})
	r.units.found(maps.Clone(r.on.table)) // its own word, by the watch
	r.say("a-1", "false", "yes=0 no=2 of=3")
	r.lose("a-2")
	if n := r.steps(time.Minute); n != 0 {
		t.Errorf("no unit changed, and it is written %d times", n)
	}
	r.moves("a-2", "b")
	if n := r.steps(time.Second); n != 1 {
		t.Errorf("a node moved, and it is written %d times within a second", n)
	}
	is("one moved", map[string]string{"a-1": "a", "a-2": "b", "a-3": "a"})
	for i := range 60 {
		r.moves("a-3", fmt.Sprint("unit-", i))
		r.steps(time.Second)
	}
	if n := r.on.tables; n > 15 || r.on.table["a-3"] < "unit-54" {
		t.Errorf("a node moves each second for a minute: %d writes, the table is %v", n, r.on.table)
	}
	r.moves("a-3", "")
	r.steps(10 * time.Second)
	is("one is gone", map[string]string{"a-1": "a", "a-2": "b"})
	r.units.found(map[string]string{"a-1": "b"})
	r.steps(10 * time.Second)
	is("somebody else wrote it", map[string]string{"a-1": "a", "a-2": "b"})
	r.units.found(nil)
	if n := r.steps(10 * time.Second); n != 1 {
		t.Errorf("it was deleted, and is written %d times", n)
	}
}

// An empty table holds votes, too: without one they are not held at all.
func TestATableOfNobodyIsWritten(t *testing.T) {
	r := newRig(t)
	for name := range r.n {
		r.moves(name, "")
	}
	r.units.found(nil)
	if n := r.steps(5 * time.Second); n != 1 || len(r.on.table) > 0 || r.on.table == nil {
		t.Errorf("%d writes, the table is %v", n, r.on.table)
	}
}

// An empty list is written where there is none, once.
func TestAListOfNobodyIsWritten(t *testing.T) {
	r := newRig(t)
	r.units.found(nil)
	r.absent = true
	if r.steps(time.Minute); r.on.writes != 1 || r.on.list == nil || len(r.on.list) > 0 {
		t.Errorf("%d writes, the list is %v", r.on.writes, r.on.list)
	}
}

// Votes count once the table is there to which they are held; who cannot write it shields nodes
// all the same, a minute later.
func TestVotesCountOnceTheyAreHeld(t *testing.T) {
	r := newRig(t)
	r.units.found(nil)
	r.on.broken = true
	r.say("a-2", "true", "yes=3 no=0 of=3 cut=true")
	r.steps(20 * time.Second)
	r.on.broken = false
	if len(r.said) > 0 {
		t.Errorf("without the table it is said %v", r.said)
	}
	r.steps(6 * time.Second)
	r.listedAre("the table is there", "a-2")

	r = newRig(t)
	r.units.found(nil)
	r.on.noTable = true
	r.steps(50 * time.Second)
	r.say("a-2", "true", "yes=3 no=0 of=3 cut=true")
	r.steps(9 * time.Second)
	r.listedAre("the table cannot be written")
	r.steps(5 * time.Second)
	r.listedAre("for more than a minute", "a-2")
}

// A table of more nodes than one object holds has whole units, and says how many nodes are in
// none.
func TestTheTableIsBounded(t *testing.T) {
	w := newWorld(shield.Config{}, nil)
	for unit := range 5 {
		for i := range 10 {
			w.setNode(time.Time{}, fmt.Sprintf("u%d-%d", unit, i), node{unit: fmt.Sprint("u", unit)}, false)
		}
	}
	w.setNode(time.Time{}, "nowhere", node{}, false)
	each := 10 * typed.TableRow("u0-0", "u0")
	for most, want := range map[int]int{5 * each: 50, 5*each - 1: 40, each: 10, each - 1: 0} {
		table, left := w.table(most)
		if len(table) != want || left != 50-want {
			t.Errorf("%d bytes: %d nodes, %d left, want %d", most, len(table), left, want)
		}
		for node, unit := range table {
			if node[:2] != unit {
				t.Errorf("%s is in %s", node, unit)
			}
		}
	}
}

// Of more names than one object holds some are kept, and the list is not written again and again.
func TestTheListIsBounded(t *testing.T) {
	r := newRig(t)
	keep := map[string]bool{}
	for i := range 30_000 {
		keep[fmt.Sprintf("a-node-with-a-name-of-forty-letters-%05d", i)] = true
	}
	data := r.list(r.now, keep)
	size := 0
	for name, until := range data {
		size += typed.TableRow(name, until)
	}
	if len(data) != len(keep) || len(data) < 15_000 || size > typed.MostTable || data["a-node-with-a-name-of-forty-letters-00000"] == "" {
		t.Errorf("%d names on the list, %d kept, %d bytes", len(data), len(keep), size)
	}
}
