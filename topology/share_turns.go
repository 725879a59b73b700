package topology

import (
	"cmp"
	"container/heap"
	"slices"
)

// turn is that of a namespace, for the next list of what it has yet to ask for.
type turn struct {
	list   []*portion // of the namespace, by age
	rest   []*portion // the end of it that has not had all its turns; none where nothing of it fits
	family int        // of the first of those: the next list is of it
	took   int        // entries
	at     int        // its place in the heap
}

// deal gives room out in turns, one for each family of a Service.
func deal(of map[string]*turn, left int) {
	all, large := begin(of, left)
	for len(all) > 0 {
		t := all[0]
		left -= t.cost()
		t.took += t.cost()
		t.rest[0].guard.room[t.family] = true
		all.next(t, left)
		// Who waits for what does not fit any more goes on at once to what does.
		for ; len(large) > 0 && large[0].cost > left; large = large[1:] {
			if t := large[0].of; len(t.rest) > 0 && t.cost() > left {
				all.next(t, left)
			}
		}
	}
}

// costly is what a list of a namespace costs.
type costly struct {
	cost int
	of   *turn
}

// begin has each namespace wait for its first list that fits, and tells what the lists of all
// cost, the most first.
func begin(of map[string]*turn, left int) (all turns, costs []costly) {
	for _, t := range of {
		var last int
		for _, p := range t.list {
			p.guard.room = [2]bool{}
			for f, cost := range p.guard.cost {
				if p.guard.wants[f] && cost != last {
					costs, last = append(costs, costly{cost, t}), cost
				}
			}
		}
		if t.rest, t.family, t.took, t.at = t.list, 0, 0, len(all); t.next(left) {
			all = append(all, t)
		}
	}
	slices.SortFunc(costs, func(a, b costly) int { return cmp.Compare(b.cost, a.cost) })
	heap.Init(&all)
	return all, costs
}

func (t *turn) cost() int { return t.rest[0].guard.cost[t.family] }

// next goes to the next list that fits, if there is one: what does not will not later.
func (t *turn) next(left int) bool {
	for ; len(t.rest) > 0; t.rest, t.family = t.rest[1:], 0 {
		for ; t.family < 2; t.family++ {
			if g := &t.rest[0].guard; g.wants[t.family] && !g.room[t.family] && t.cost() <= left {
				return true
			}
		}
	}
	return false
}

// turns are a heap of those that wait, the next on top.
type turns []*turn

// next has a namespace wait for its next list, or no more.
func (a *turns) next(t *turn, left int) {
	if t.next(left) {
		heap.Fix(a, t.at)
	} else {
		heap.Remove(a, t.at)
	}
}

// Len is of heap.Interface, as all below.
func (a *turns) Len() int { return len(*a) }

// Less puts whoever has least with his next list on top, and of those the elder.
func (a *turns) Less(i, j int) bool {
	t, o := (*a)[i], (*a)[j]
	if of, other := t.took+t.cost(), o.took+o.cost(); of != other {
		return of < other
	}
	return t.rest[0].service.CompareAge(o.rest[0].service) < 0
}

// Swap keeps the places up to date.
func (a *turns) Swap(i, j int) {
	(*a)[i], (*a)[j] = (*a)[j], (*a)[i]
	(*a)[i].at, (*a)[j].at = i, j
}

// Push appends one.
func (a *turns) Push(x any) { *a = append(*a, x.(*turn)) }

// Pop takes the last away.
func (a *turns) Pop() any {
	last := len(*a) - 1
	t := (*a)[last]
	*a = (*a)[:last]
	return t
}
