package cloud

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/kube/typed"
)

const (
	// unitsEvery is how often the table of units is written at most: a roll-out that gives
	// ten thousand nodes their labels, one by one, would have the table written as often.
	unitsEvery = 5 * time.Second
	// unitsPatience is how long votes do not count for want of that table. Then they do: who
	// cannot write it would shield nobody.
	unitsPatience = time.Minute
)

// units keeps the table of which node is in which unit, to which the admission policies hold
// votes.
type units struct {
	stored  map[string]string // as the API server has it; nil: it has none, or nobody knows
	changed bool              // something was, since it was last compared
	tried   time.Time         // the last write
	held    bool              // it was as it should be, once
	full    quiet.Line
	failing quiet.Line
}

// found takes the table as it is now; nil where there is none.
func (u *units) found(table map[string]string) { u.stored, u.changed = table, true }

// keepUnits writes the table where another one is due.
func (k *Keeper) keepUnits(ctx context.Context, now time.Time) {
	u := &k.units
	if !u.changed || !u.tried.IsZero() && now.Sub(u.tried) < unitsEvery {
		return
	}
	table, left := k.world.table(typed.MostTable)
	k.metrics.unitless.Set(float64(left))
	if left > 0 {
		u.full.Say(k.cfg.Log.Error, "the table of units is full: nodes of units that are not in it neither vote nor are voted on", obs.KeyMembers, left)
	}
	if u.stored != nil && maps.Equal(table, u.stored) {
		u.changed, u.held = false, true
		return
	}
	u.tried = now
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := k.cluster.WriteUnits(ctx, table)
	k.metrics.wrote("units", err)
	if err != nil {
		u.failing.Say(k.cfg.Log.Error, "the table of units was not written: it is tried again, and votes are not held to what it should be", obs.KeyErr, err)
		return
	}
	u.stored, u.changed, u.held = table, false, true
}

// counted reports whether votes are to count.
func (k *Keeper) counted(now time.Time) bool { return k.units.held || now.Sub(k.begun) > unitsPatience }

// table is the unit of each node that is in one, in most bytes of JSON, and how many nodes found
// no room: of a unit all do, or none.
func (w *world) table(most int) (table map[string]string, left int) {
	table = make(map[string]string, len(w.nodes))
	for _, name := range slices.Sorted(maps.Keys(w.units)) {
		if name == "" {
			continue
		}
		size, u := 0, w.units[name]
		for node := range u.nodes {
			size += typed.TableRow(node, name)
		}
		if size > most {
			left += len(u.nodes)
			continue
		}
		most -= size
		for node := range u.nodes {
			table[node] = name
		}
	}
	return table, left
}
