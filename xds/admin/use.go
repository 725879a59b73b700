package admin

import (
	"math"
	"net/netip"
)

// Use is what became of the connections to a cluster.
type Use struct {
	Cluster string
	// End is the endpoint that the counters are of; not valid where they are of
	// all that the cluster ever had.
	End netip.AddrPort
	Counters
	Ejected int // endpoints that nobody is sent to
}

func (u *Use) set(stat string, value uint64) {
	switch stat {
	case statTotal:
		u.Connections = value
	case statFailed:
		u.Failed = value
	case statActive:
		u.Active = value
	case statEjected:
		u.Ejected = int(min(value, math.MaxInt32))
	}
}

// Uses is what an Envoy that does not count by cluster says of each endpoint.
func Uses(list []Cluster) (uses []Use) {
	for _, c := range list {
		for _, e := range c.Endpoints {
			u := Use{Cluster: c.Name, End: e.Address, Counters: Counters{e.Connections, e.Failed, e.Active}}
			if e.Ejected {
				u.Ejected = 1
			}
			uses = append(uses, u)
		}
	}
	return uses
}
