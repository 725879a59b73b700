package answer

import (
	"net/netip"

	"github.com/gridmesh/gridmesh/topology"
)

const (
	// largest is a message of DNS, in bytes (RFC 1035, 4.2.2).
	largest = 65535
	// owned is the least that a record takes besides its data, in bytes: its
	// owner's name as a pointer, type, class, TTL and length.
	owned = 12
	// weighed is how many addresses are counted for the weight of SRV records: 1
	// of 100 is the least.
	weighed = 100
)

// targets are SRV records in the making. One Service may have ports times pods
// of them, millions: it is full when no message has room for more.
type targets struct {
	list       []Target
	full       bool
	srv, addrs int // the least that they take, in bytes
	ports      map[targetPort]bool
	ips        map[targetIP]bool
	slices     map[targetSlice]bool
}

type targetPort struct {
	name string
	port uint16
}

type targetIP struct {
	name string
	ip   netip.Addr
}

// targetSlice is a name and what pods of one slice have in common: their ports.
type targetSlice struct {
	name  string
	ports *topology.SlicePort
}

// add adds a target. One that says nothing new is left out where it does not
// count for the weight either.
func (t *targets) add(name string, port uint16, ips ...netip.Addr) {
	if t.ports == nil { // most questions are for addresses
		t.ports, t.ips, t.slices = map[targetPort]bool{}, map[targetIP]bool{}, map[targetSlice]bool{}
	}
	adds := false
	if key := (targetPort{name, port}); !t.ports[key] {
		t.ports[key], adds = true, true
		t.srv += owned + 6 + len(name) + 2 // no compression of the target (RFC 2782)
	}
	for _, ip := range ips {
		if key := (targetIP{name, ip}); !t.ips[key] {
			t.ips[key], adds = true, true
			t.addrs += owned + ip.BitLen()/8
		}
	}
	if adds || len(t.list) < weighed {
		t.list = append(t.list, Target{name, port, ips})
	}
	t.full = max(t.srv, t.addrs) > largest
}

// pod adds the ports of a pod.
func (t *targets) pod(name string, ip netip.Addr, ports []topology.SlicePort) {
	if t.full || len(ports) == 0 {
		return
	}
	key := targetSlice{name, &ports[0]}
	again := t.slices[key] // another pod of the name and the slice: only its address may be new
	for _, p := range ports {
		if t.add(name, p.Port, ip); t.full || again && len(t.list) >= weighed {
			break
		}
	}
	t.slices[key] = true
}

// portFilter picks the ports that a name asks for, once for all pods of a slice.
type portFilter struct {
	port, proto string
	picked      map[*topology.SlicePort][]topology.SlicePort
}

func (f *portFilter) pick(ports []topology.SlicePort) []topology.SlicePort {
	if len(ports) == 0 {
		return nil
	}
	list, known := f.picked[&ports[0]]
	if !known {
		for _, p := range ports {
			if isPort(p.Name, p.Protocol, f.port, f.proto) {
				list = append(list, p)
			}
		}
		f.picked[&ports[0]] = list
	}
	return list
}
