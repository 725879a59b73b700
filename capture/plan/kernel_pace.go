package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// What the kernel needs for one element of a change is some 7 µs of a core, in which nobody
// else's change is written. So a namespace pays for each with a pause: one for what its large
// changes wrote, of more than fewElements, in which the next of those waits, and one for all
// others, of which as many elements are written at once as fewElements are. Whoever rewrites a
// hundred thousand elements at each turn, by one Service or by many, takes a seventh of the time.
const (
	fewElements = 1 << 14
	perElement  = 100 * time.Microsecond
)

// Pace says whose change is taken now, and whose later.
type Pace struct {
	paid    map[lane]time.Time // when what was written is
	waiting map[string]waiter  // by Service
}

// lane is what pays for itself: the large changes of a namespace, or the others.
type lane struct {
	namespace string
	large     bool
}

// waiter is what a Service is to have.
type waiter struct {
	want  []KernelFrontend
	cost  int // elements that change, or somewhat more
	since time.Time
}

// NewPace has nobody wait.
func NewPace() *Pace {
	return &Pace{paid: map[lane]time.Time{}, waiting: map[string]waiter{}}
}

// Take returns what is to be planned of Services at a time: of those that changed, and of those
// that have waited, as a planner has them. Of one that waits goes at once what it no longer
// serves, and who may dial it is as it is to be; its endpoints stay those that it has. What of it
// is new comes at once, too, where there is room: nobody else serves it.
func (p *Pace) Take(changed map[string][]KernelFrontend, has *KernelPlanner, now time.Time) map[string][]KernelFrontend {
	maps.DeleteFunc(p.paid, func(_ lane, at time.Time) bool { return !now.Before(at) })
	taken := map[string][]KernelFrontend{}
	for service, want := range changed {
		was, waited := p.waiting[service]
		if delete(p.waiting, service); len(want) == 0 {
			taken[service] = want // costs what was paid for
			continue
		}
		w := waiter{want: want, cost: has.differing(has.Of(service), want), since: now}
		if waited {
			w.since = was.since
		}
		p.waiting[service] = w
	}
	room := p.rooms(now)
	for of, services := range p.queues() {
		for _, service := range p.admit(services, of, room) {
			taken[service] = p.waiting[service].want
			delete(p.waiting, service)
		}
	}
	for _, service := range slices.Sorted(maps.Keys(changed)) {
		if w, waits := p.waiting[service]; waits {
			taken[service] = has.meanwhile(has.Of(service), w.want, room, lane{namespace: namespaceOf(service)})
		}
	}
	return taken
}

// rooms is how many elements each lane may write; one that is not in it, all.
func (p *Pace) rooms(now time.Time) func(lane) *int {
	rooms := map[lane]*int{}
	return func(of lane) *int {
		if rooms[of] == nil {
			n := -int(max(0, p.paid[of].Sub(now)) / perElement)
			if !of.large {
				n += fewElements
			}
			rooms[of] = &n
		}
		return rooms[of]
	}
}

// queues are the Services that wait, by lane, the cheapest first.
func (p *Pace) queues() map[lane][]string {
	queues := map[lane][]string{}
	for service, w := range p.waiting {
		of := lane{namespaceOf(service), w.cost > fewElements}
		queues[of] = append(queues[of], service)
	}
	for _, list := range queues {
		slices.SortFunc(list, func(a, b string) int {
			return cmp.Or(cmp.Compare(p.waiting[a].cost, p.waiting[b].cost), cmp.Compare(a, b))
		})
	}
	return queues
}

// admit returns which of a lane are taken: those for which there is room, and while there is any
// who has waited for the longest, or somebody who waits might be overtaken for ever.
func (p *Pace) admit(services []string, of lane, rooms func(lane) *int) (list []string) {
	room := rooms(of)
	for _, service := range slices.SortedFunc(slices.Values(services), p.older)[:1] {
		if *room >= 0 {
			*room -= p.waiting[service].cost
			list = append(list, service)
		}
	}
	for _, service := range services {
		if cost := p.waiting[service].cost; (cost == 0 || cost <= *room) && !slices.Contains(list, service) {
			*room -= cost
			list = append(list, service)
		}
	}
	return list
}

// older orders Services that wait by how long.
func (p *Pace) older(a, b string) int {
	return cmp.Or(p.waiting[a].since.Compare(p.waiting[b].since), cmp.Compare(p.waiting[a].cost, p.waiting[b].cost), cmp.Compare(a, b))
}

// All returns what waits, whosever turn it is.
func (p *Pace) All() map[string][]KernelFrontend {
	taken := map[string][]KernelFrontend{}
	for service, w := range p.waiting {
		taken[service] = w.want
	}
	clear(p.waiting)
	return taken
}

// Pay takes how many elements were written of each Service.
func (p *Pace) Pay(written map[string]int, now time.Time) {
	for service, n := range written {
		of := lane{namespaceOf(service), n > fewElements}
		from := p.paid[of]
		if from.Before(now) {
			from = now
		}
		p.paid[of] = from.Add(time.Duration(n) * perElement)
	}
}

// Waiting are the Services that wait, who does for the longest first.
func (p *Pace) Waiting() []string { return slices.SortedFunc(maps.Keys(p.waiting), p.older) }

// meanwhile is what a Service has that is to be another, and what of that is new, as far as
// there is room.
func (p *KernelPlanner) meanwhile(old, want []KernelFrontend, rooms func(lane) *int, of lane) (list []KernelFrontend) {
	next := map[topology.Frontend]*KernelFrontend{}
	for i := range want {
		next[want[i].Frontend] = &want[i]
	}
	for _, f := range old {
		w := next[f.Frontend]
		if w == nil {
			continue
		}
		delete(next, f.Frontend)
		if f.Silent = w.Silent; f.Outside != nil && w.Outside != nil {
			outside := *f.Outside
			outside.Sources, outside.Silent = w.Outside.Sources, w.Outside.Silent
			f.Outside = &outside
		}
		list = append(list, f)
	}
	room := rooms(of)
	for i := range want {
		if f := &want[i]; next[f.Frontend] != nil && p.weigh(f) <= *room {
			*room -= p.weigh(f)
			list = append(list, *f)
		}
	}
	return list
}

// differing is how many elements are others where a Service becomes another, or somewhat more.
func (p *KernelPlanner) differing(old, want []KernelFrontend) (n int) {
	next := map[topology.Frontend]*KernelFrontend{}
	for i := range want {
		next[want[i].Frontend] = &want[i]
	}
	for i := range old {
		w := next[old[i].Frontend]
		delete(next, old[i].Frontend)
		switch {
		case w == nil:
			n += p.weigh(&old[i])
		case (w.Affinity > 0) != (old[i].Affinity > 0):
			n += p.weigh(&old[i]) + p.weigh(w)
		default:
			n += p.copies(w) * weighOf(others(old[i].endpoints(), w.endpoints()), w.Affinity > 0)
		}
	}
	for _, w := range next {
		n += p.weigh(w)
	}
	return n
}

// weigh is how many elements a frontend has, or somewhat more.
func (p *KernelPlanner) weigh(f *KernelFrontend) int {
	return p.copies(f) * weighOf(len(f.endpoints()), f.Affinity > 0)
}

// copies are at how many addresses a frontend is.
func (p *KernelPlanner) copies(f *KernelFrontend) int {
	if f.Addr.IsUnspecified() {
		return len(p.nodePorts)
	}
	return 1
}

// endpoints are those of all tiers.
func (f *KernelFrontend) endpoints() []netip.AddrPort {
	all := slices.Concat(f.Tiers...)
	if f.Outside != nil {
		all = append(all, slices.Concat(f.Outside.LocalTiers...)...)
	}
	return all
}

// others is how many are in one list alone.
func others(a, b []netip.AddrPort) int {
	if slices.Equal(a, b) {
		return 0
	}
	in := make(map[netip.AddrPort]int, len(a))
	for _, e := range a {
		in[e]++
	}
	n := len(a)
	for _, e := range b {
		if in[e] > 0 {
			in[e]--
			n--
		} else {
			n++
		}
	}
	return n
}
