package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// What the kernel needs for one element of a change is some 7 µs of a core, in which nobody
// else's change is written. A namespace whose Services change more than few elements pays for
// each with a pause, in which those of its Services that are as large wait: so that whoever
// rewrites a hundred thousand elements at each turn takes a tenth of the time, and no more.
const (
	fewElements = 1 << 14
	perElement  = 100 * time.Microsecond
)

// Pace says whose change is taken now, and whose later.
type Pace struct {
	until   map[string]time.Time        // by namespace: how long its pause is
	waiting map[string][]KernelFrontend // by Service: what it is to have
}

// NewPace has nobody wait.
func NewPace() *Pace {
	return &Pace{until: map[string]time.Time{}, waiting: map[string][]KernelFrontend{}}
}

// Take returns what is to be planned of Services at a time: of those that changed, and of those
// that have waited. has is what is planned of one. What a waiting Service no longer serves goes at
// once, and who may dial it is as it is to be; its endpoints stay those that it has.
func (p *Pace) Take(changed map[string][]KernelFrontend, has func(service string) []KernelFrontend, now time.Time) map[string][]KernelFrontend {
	taken := p.due(now)
	for service, want := range changed {
		old := has(service)
		delete(p.waiting, service)
		if now.Before(p.until[namespaceOf(service)]) && weigh(old)+weigh(want) > fewElements && len(want) > 0 {
			p.waiting[service] = want
			want = meanwhile(old, want)
		}
		taken[service] = want
	}
	return taken
}

// All returns what waits, whosever turn it is.
func (p *Pace) All() map[string][]KernelFrontend {
	taken := p.waiting
	p.waiting = map[string][]KernelFrontend{}
	return taken
}

// due takes what has waited long enough, of each namespace one Service.
func (p *Pace) due(now time.Time) map[string][]KernelFrontend {
	taken, served := map[string][]KernelFrontend{}, map[string]bool{}
	maps.DeleteFunc(p.until, func(_ string, until time.Time) bool { return !now.Before(until) })
	for _, service := range slices.Sorted(maps.Keys(p.waiting)) {
		namespace := namespaceOf(service)
		if _, paused := p.until[namespace]; paused || served[namespace] {
			continue
		}
		taken[service], served[namespace] = p.waiting[service], true
		delete(p.waiting, service)
	}
	return taken
}

// Pay takes how many elements were written of each Service.
func (p *Pace) Pay(written map[string]int, now time.Time) {
	of := map[string]int{}
	for service, n := range written {
		of[namespaceOf(service)] += n
	}
	for namespace, n := range of {
		if pause := time.Duration(n) * perElement; n > fewElements {
			p.until[namespace] = now.Add(pause)
		}
	}
}

// Waiting are the Services that wait, by name.
func (p *Pace) Waiting() []string { return slices.Sorted(maps.Keys(p.waiting)) }

// meanwhile is what a Service has that is to be another.
func meanwhile(old, want []KernelFrontend) (list []KernelFrontend) {
	next := map[topology.Frontend]*KernelFrontend{}
	for i := range want {
		next[want[i].Frontend] = &want[i]
	}
	for _, f := range old {
		w := next[f.Frontend]
		if w == nil {
			continue
		}
		if f.Silent = w.Silent; f.Outside != nil && w.Outside != nil {
			outside := *f.Outside
			outside.Sources, outside.Silent = w.Outside.Sources, w.Outside.Silent
			f.Outside = &outside
		}
		list = append(list, f)
	}
	return list
}

// weigh is how many elements frontends have, or somewhat more.
func weigh(list []KernelFrontend) (n int) {
	for i := range list {
		f := &list[i]
		endpoints := 0
		for _, t := range f.Tiers {
			endpoints += len(t)
		}
		if f.Outside != nil {
			for _, t := range f.Outside.LocalTiers {
				endpoints += len(t)
			}
		}
		n += weighOf(endpoints, f.Affinity > 0)
	}
	return n
}
