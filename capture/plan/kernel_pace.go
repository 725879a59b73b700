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
	payers  map[string]payer   // of the Services that were taken last, who pays
}

// lane is what pays for itself: the large changes of a namespace, or the others.
type lane struct {
	namespace string
	large     bool
}

// payer is the lane in which a Service had its turn, or waits; for so many elements it is the
// lane of small changes.
type payer struct {
	lane
	small int
}

// waiter is what a Service is to have.
type waiter struct {
	want  []KernelFrontend
	cost  int  // elements that change, or somewhat more
	grant bool // its memories for which there is room again are among them
	only  bool // it is what it is to be but for those
	since time.Time
}

// lane is where it has its turn.
func (w waiter) lane(service string) lane { return lane{namespaceOf(service), w.cost > fewElements} }

// NewPace has nobody wait.
func NewPace() *Pace {
	return &Pace{paid: map[lane]time.Time{}, waiting: map[string]waiter{}, payers: map[string]payer{}}
}

// Take returns what is to be planned of Services at a time: of those that changed, and of those
// that have waited, as a planner has them. Of one that waits goes at once what it no longer
// serves, and who may dial it is as it is to be; its endpoints stay those that it has. What of it
// is new comes at once, too, where there is room: nobody else serves it. Who is taken has his
// memories again for which there is room.
func (p *Pace) Take(changed map[string][]KernelFrontend, has *KernelPlanner, now time.Time) map[string][]KernelFrontend {
	maps.DeleteFunc(p.paid, func(_ lane, at time.Time) bool { return !now.Before(at) })
	clear(p.payers)
	taken := map[string][]KernelFrontend{}
	for service, want := range changed {
		if len(want) == 0 {
			delete(p.waiting, service)
			taken[service] = want // costs what was paid for
			continue
		}
		p.await(service, waiter{want: want, since: now}, has)
	}
	p.awaitDue(has, now)
	room := p.rooms(now)
	for of, services := range p.queues() {
		for _, service := range p.admit(services, of, room) {
			w := p.waiting[service]
			taken[service], p.payers[service] = w.want, payer{lane: of}
			if delete(p.waiting, service); w.grant {
				has.grant(service)
			}
		}
	}
	for _, service := range slices.Sorted(maps.Keys(changed)) {
		if w, waits := p.waiting[service]; waits {
			list, cost := has.meanwhile(has.Of(service), w.want, room(lane{namespace: namespaceOf(service)}))
			taken[service], p.payers[service] = list, payer{w.lane(service), cost}
		}
	}
	return taken
}

// await has a Service wait for its turn, from when it first waited.
func (p *Pace) await(service string, w waiter, has *KernelPlanner) {
	w.cost, w.grant = has.differing(service, w.want)+has.granting(service, w.want), has.due(service)
	if was, waited := p.waiting[service]; waited {
		w.since = was.since
	}
	p.waiting[service] = w
}

// awaitDue has those wait whose clients may be remembered again.
func (p *Pace) awaitDue(has *KernelPlanner, now time.Time) {
	maps.DeleteFunc(p.waiting, func(service string, w waiter) bool { return w.only && !has.due(service) })
	for _, service := range has.Due() {
		w, waits := p.waiting[service]
		if !waits {
			w = waiter{want: has.Of(service), only: true, since: now}
		}
		if !w.grant {
			p.await(service, w, has)
		}
	}
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
		of := w.lane(service)
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

// Pay takes how many elements were written of each Service since Take. It pays where it had its
// turn: whoever has it in one lane and pays in another has it always.
func (p *Pace) Pay(written map[string]int, now time.Time) {
	for service, n := range written {
		by, taken := p.payers[service]
		if !taken { // it is gone, or changed by what others did
			by.lane = lane{namespaceOf(service), n > fewElements}
		}
		small := min(by.small, n)
		p.pay(lane{namespace: by.namespace}, small, now)
		p.pay(by.lane, n-small, now)
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
func (p *Pace) Waiting() (services []string) {
	for service, w := range p.waiting {
		if !w.only {
			services = append(services, service)
		}
	}
	slices.SortFunc(services, p.older)
	return services
}

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
