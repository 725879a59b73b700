package hold

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Endpoint is one address of one Service on one node.
type Endpoint struct {
	Service topology.ObjectKey `json:"service"`
	Addr    netip.Addr         `json:"addr"`
	Node    string             `json:"node"`
}

func (e Endpoint) compare(o Endpoint) int {
	return cmp.Or(e.Service.Compare(o.Service), e.Addr.Compare(o.Addr), cmp.Compare(e.Node, o.Node))
}

// Past is what one hold leaves to the next, in this process or in the one
// after it. It has spans and no times: clocks of nodes jump.
type Past struct {
	// Age is for how long a hold has been going on that goes on: a restart
	// prolongs nothing. 0 where another outage came in between.
	Age time.Duration `json:"age"`
	// Held are the endpoints that were held since they were last ready, sorted,
	// let go of or not.
	Held []Since `json:"held"`
}

// Since is for how long an endpoint has been held, by the cloud's time and over
// all holds since it was last ready.
type Since struct {
	Endpoint
	For time.Duration `json:"for"`
}

// Past is what this hold leaves at a time.
func (h *Hold) Past(now time.Time) Past {
	p := Past{Age: max(0, now.Sub(h.began))}
	for e, since := range h.since {
		p.Held = append(p.Held, Since{e, max(0, now.Sub(since))})
	}
	slices.SortFunc(p.Held, func(a, b Since) int { return a.compare(b.Endpoint) })
	return p
}

// Interrupted is a Past after which an outage came: the next hold has its whole
// time, and each endpoint what is left of its own.
func (p Past) Interrupted() Past {
	p.Age = 0
	return p
}

// After is a Past at a later time.
func (p Past) After(d time.Duration) Past {
	p.Held = slices.Clone(p.Held)
	for i := range p.Held {
		p.Held[i].For += d
	}
	p.Age += d
	return p
}
