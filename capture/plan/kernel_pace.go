package plan

import (
	"cmp"
	"maps"
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
	grants  map[string]waiter  // for which there is room again, whose memories wait
	payers  map[string]payer   // of the Services that were taken last, who pays
}

// lane is what pays for itself: the large changes of a namespace, the others, or the memories that
// are granted and denied, which may be by what another namespace does, and hold up no change.
type lane struct {
	namespace string
	kind      kind
}

type kind int

const (
	small kind = iota
	large
	memory
)

func sized(service string, elements int) lane {
	if elements > fewElements {
		return lane{namespaceOf(service), large}
	}
	return lane{namespaceOf(service), small}
}

// payer is in which lane a Service had its turn, or waits, for so many elements, and which has the rest.
type payer struct {
	of   lane
	upTo int
	rest lane
}

// waiter is what a Service is to have.
type waiter struct {
	want  []KernelFrontend
	cost  int // elements that change, or somewhat more
	since time.Time
}

// NewPace has nobody wait.
func NewPace() *Pace {
	return &Pace{paid: map[lane]time.Time{}, waiting: map[string]waiter{}, grants: map[string]waiter{}, payers: map[string]payer{}}
}

// Take returns what is to be planned of Services at a time: of those that changed, and of those
// that have waited, as a planner has them. Of one that waits goes at once what it no longer
// serves, and who may dial it is as it is to be; its endpoints stay those that it has. What of it
// is new comes at once, too, where there is room: nobody else serves it. Whose turn it is has his
// memories again for which there is room.
func (p *Pace) Take(changed map[string][]KernelFrontend, has *KernelPlanner, now time.Time) map[string][]KernelFrontend {
	maps.DeleteFunc(p.paid, func(_ lane, at time.Time) bool { return !now.Before(at) })
	clear(p.payers)
	taken := map[string][]KernelFrontend{}
	for service, want := range changed {
		was, waited := p.waiting[service]
		if delete(p.waiting, service); len(want) == 0 {
			taken[service] = want // costs what was paid for
			continue
		}
		w := waiter{want: want, cost: has.differing(service, want), since: now}
		if waited {
			w.since = was.since
		}
		p.waiting[service] = w
	}
	room := p.rooms(now)
	for of, services := range queues(p.waiting, func(service string, w waiter) lane { return sized(service, w.cost) }) {
		for _, service := range admit(p.waiting, services, room(of)) {
			taken[service], p.payers[service] = p.waiting[service].want, payer{of, p.waiting[service].cost, of}
			delete(p.waiting, service)
		}
	}
	for _, service := range slices.Sorted(maps.Keys(changed)) {
		if w, waits := p.waiting[service]; waits {
			list, cost := has.meanwhile(has.Of(service), w.want, room(lane{namespaceOf(service), small}))
			taken[service], p.payers[service] = list, payer{lane{namespaceOf(service), small}, cost, sized(service, w.cost)}
		}
	}
	p.grant(has, room, now)
	return taken
}

// grant has those remember their clients again whose turn it is.
func (p *Pace) grant(has *KernelPlanner, room func(lane) *int, now time.Time) {
	maps.DeleteFunc(p.grants, func(service string, _ waiter) bool { return !has.due(service) })
	for _, service := range has.Due() {
		if _, waits := p.grants[service]; !waits {
			p.grants[service] = waiter{cost: has.granting(service, has.Of(service)), since: now}
		}
	}
	for of, services := range queues(p.grants, func(service string, _ waiter) lane { return lane{namespaceOf(service), memory} }) {
		for _, service := range admit(p.grants, services, room(of)) {
			has.grant(service)
			delete(p.grants, service)
			by := p.payers[service] // of none: nothing
			by.rest = of
			p.payers[service] = by
		}
	}
}

// rooms is how many elements each lane may write; one that is not in it, all.
func (p *Pace) rooms(now time.Time) func(lane) *int {
	rooms := map[lane]*int{}
	return func(of lane) *int {
		if rooms[of] == nil {
			n := -int(max(0, p.paid[of].Sub(now)) / perElement)
			if of.kind == small {
				n += fewElements
			}
			rooms[of] = &n
		}
		return rooms[of]
	}
}

// queues are those that wait, by lane, the cheapest first.
func queues(waiting map[string]waiter, in func(service string, w waiter) lane) map[lane][]string {
	queues := map[lane][]string{}
	for service, w := range waiting {
		of := in(service, w)
		queues[of] = append(queues[of], service)
	}
	for _, list := range queues {
		slices.SortFunc(list, func(a, b string) int {
			return cmp.Or(cmp.Compare(waiting[a].cost, waiting[b].cost), cmp.Compare(a, b))
		})
	}
	return queues
}

// admit returns which of a lane are taken: those for which there is room, and while there is any
// who has waited for the longest, or somebody who waits might be overtaken for ever.
func admit(waiting map[string]waiter, services []string, room *int) (list []string) {
	for _, service := range slices.SortedFunc(slices.Values(services), older(waiting))[:1] {
		if *room >= 0 {
			*room -= waiting[service].cost
			list = append(list, service)
		}
	}
	for _, service := range services {
		if cost := waiting[service].cost; (cost == 0 || cost <= *room) && !slices.Contains(list, service) {
			*room -= cost
			list = append(list, service)
		}
	}
	return list
}

// older orders Services that wait by how long.
func older(waiting map[string]waiter) func(a, b string) int {
	return func(a, b string) int {
		return cmp.Or(waiting[a].since.Compare(waiting[b].since), cmp.Compare(waiting[a].cost, waiting[b].cost), cmp.Compare(a, b))
	}
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

// Pay takes how many elements were written of each Service since Take. It pays where it had its
// turn: whoever has it in one lane and pays in another has it always.
func (p *Pace) Pay(written map[string]int, has *KernelPlanner, now time.Time) {
	for service, n := range written {
		by, taken := p.payers[service]
		switch {
		case taken:
		case has.Of(service) == nil: // it is gone
			by.rest = sized(service, n)
		default: // it lost memories
			by.rest = lane{namespaceOf(service), memory}
		}
		own := min(by.upTo, n)
		p.pay(by.of, own, now)
		p.pay(by.rest, n-own, now)
	}
}

func (p *Pace) pay(of lane, elements int, now time.Time) {
	from := p.paid[of]
	if from.Before(now) {
		from = now
	}
	p.paid[of] = from.Add(time.Duration(elements) * perElement)
}

// Waiting are the Services whose change waits, who does for the longest first.
func (p *Pace) Waiting() []string { return slices.SortedFunc(maps.Keys(p.waiting), older(p.waiting)) }

// meanwhile is what a Service has that is to be another, and what of that is new, as far as
// there is room, with what it costs.
func (p *KernelPlanner) meanwhile(old, want []KernelFrontend, room *int) (list []KernelFrontend, cost int) {
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
	for i := range want {
		if next[want[i].Frontend] == nil {
			continue
		}
		if n := p.cost(p.expand(want[i : i+1])); n <= *room {
			*room, cost = *room-n, cost+n
			list = append(list, want[i])
		}
	}
	return list, cost
}

// differing is how many elements are others where a Service becomes another, or somewhat more.
func (p *KernelPlanner) differing(service string, want []KernelFrontend) int {
	next := p.expand(want)
	for f := range p.expand(p.services[service]) {
		if _, stays := next[f]; !stays {
			next[f] = nil
		}
	}
	return p.cost(next)
}

// cost is how many elements are others where frontends are to be so, nil: gone. They are planned
// for it: what else would be weighed than what is written?
func (p *KernelPlanner) cost(next map[topology.Frontend]*KernelFrontend) (n int) {
	for f, want := range next {
		m := move{f, p.held[f], nil}
		if want != nil {
			m.is = p.hold(f, want, m.was)
		}
		n += m.cost()
	}
	return n
}
