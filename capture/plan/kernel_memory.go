package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Memory is where the clients of a session are remembered, each with its endpoint. It has
// a bound of its own: whoever fills it takes no room from another.
type Memory struct {
	ID   uint64
	IPv6 bool
	Many bool // for clients from elsewhere, too
}

// How many clients a memory has room for. Those of this node alone are few.
const (
	fewClients  = 1 << 10
	manyClients = 1 << 12
	// mostClients bounds those of all memories, and with it what they take of the kernel: some 100 bytes each.
	mostClients = 1 << 20
)

// Clients is how many it has room for.
func (m Memory) Clients() int {
	if m.Many {
		return manyClients
	}
	return fewClients
}

func (m Memory) compare(o Memory) int {
	return cmp.Or(cmp.Compare(m.ID, o.ID), compareBool(m.IPv6, o.IPv6), compareBool(m.Many, o.Many))
}

// Memory is the one that a Pick with affinity has.
func (p Pick) Memory() (m Memory, has bool) {
	return Memory{p.Session, p.IPv6, p.Many}, p.Sticky > 0
}

// sessionID names a session. Its last bit is for the endpoints of this node: what
// clients keep of these is a memory of its own.
func sessionID(session string, here bool) uint64 {
	sum := sha256.Sum256([]byte(session))
	id := binary.BigEndian.Uint64(sum[:]) &^ 1
	if here {
		id |= 1
	}
	return id
}

// memory is where clients of the frontend are remembered, or those of this node's endpoints.
func (f *KernelFrontend) memory(here bool) Memory {
	crowd := CrowdAnywhere
	if here {
		crowd = CrowdHere
	}
	return Memory{sessionID(f.Session, here), f.Addr.Is6(), f.Crowd == crowd}
}

// remember makes a Pick one whose clients keep their endpoint, where there is room.
func (p *KernelPlanner) remember(pick *Pick, want *KernelFrontend, here bool) {
	m := want.memory(here)
	if pick.Among > 0 && !p.memories.denied[m] {
		pick.Session, pick.Many = m.ID, m.Many
		pick.Sticky = max(1, uint32(min(want.Affinity, mostSticky)/time.Second))
	}
}

// Forgotten are the namespaces of Services with affinity whose clients nobody remembers,
// because theirs have all the room that others leave.
func (p *KernelPlanner) Forgotten() (namespaces []string) {
	for service, list := range p.memories.of {
		if slices.ContainsFunc(list, func(m Memory) bool { return p.memories.denied[m] }) {
			namespaces = append(namespaces, namespaceOf(service))
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// Sharing are the Services whose clients are in one of some memories, by name.
func (p *KernelPlanner) Sharing(full map[Memory]bool) (services []string) {
	for service, list := range p.memories.of {
		if slices.ContainsFunc(list, func(m Memory) bool { return full[m] }) {
			services = append(services, service)
		}
	}
	slices.Sort(services)
	return services
}

// memories says who of those that want a memory has one. Whom there is no room for any more loses
// his at once; whom there is room for again has one when it is his turn, for what comes and goes
// would have the names of others' endpoints written each time.
type memories struct {
	room   int
	of     map[string][]Memory // by Service
	moved  bool                // since it was last settled
	denied map[Memory]bool
	due    map[string][]Memory // of those, for which there is room again, by Service
}

func newMemories() memories {
	return memories{room: mostClients, of: map[string][]Memory{}, denied: map[Memory]bool{}}
}

// set takes what a Service wants.
func (m *memories) set(service string, list []KernelFrontend) {
	want := memoriesOf(list)
	if slices.Equal(m.of[service], want) {
		return
	}
	m.moved = true
	if m.of[service] = want; len(want) == 0 {
		delete(m.of, service)
	}
}

func memoriesOf(list []KernelFrontend) (all []Memory) {
	for i := range list {
		f := &list[i]
		if f.Affinity <= 0 {
			continue
		}
		all = append(all, f.memory(f.Here))
		if f.Outside != nil && f.Outside.Local {
			all = append(all, f.memory(true))
		}
	}
	slices.SortFunc(all, Memory.compare)
	return slices.Compact(all)
}

// settle returns the Services of which a memory is denied that was not the last time.
func (m *memories) settle() (services []string) {
	if !m.moved {
		return nil
	}
	m.moved = false
	was := m.denied
	m.denied, m.due = denied(m.of, m.room), map[string][]Memory{}
	if len(was)+len(m.denied) == 0 {
		return nil
	}
	for service, list := range m.of {
		if slices.ContainsFunc(list, func(x Memory) bool { return m.denied[x] && !was[x] }) {
			services = append(services, service)
		}
		for _, x := range list {
			if was[x] && !m.denied[x] {
				m.due[service] = append(m.due[service], x)
			}
		}
	}
	for _, list := range m.due {
		for _, x := range list {
			m.denied[x] = true
		}
	}
	return services
}

// Due are the Services of which a memory was denied for which there is room again.
func (p *KernelPlanner) Due() []string { return slices.Sorted(maps.Keys(p.memories.due)) }

func (p *KernelPlanner) due(service string) bool { return len(p.memories.due[service]) > 0 }

// grant has a Service's clients remembered for which there is room again.
func (p *KernelPlanner) grant(service string) {
	for _, m := range p.memories.due[service] {
		delete(p.memories.denied, m)
	}
	delete(p.memories.due, service)
	for f := range p.expand(p.services[service]) {
		p.dirty[f] = true
	}
}

// granting is how many elements more a Service has by that, or somewhat more than that.
func (p *KernelPlanner) granting(service string, want []KernelFrontend) (n int) {
	due := p.memories.due[service]
	if len(due) == 0 {
		return 0
	}
	for f, want := range p.expand(want) {
		if want.Affinity <= 0 {
			continue
		}
		h := p.hold(f, want, p.held[f])
		if slices.Contains(due, want.memory(want.Here)) {
			n += perFront + perName*len(h.slots)
		}
		if h.local && slices.Contains(due, want.memory(true)) {
			n += perFront + perName*len(h.nears)
		}
	}
	return n
}

// denied are those for whom there is no room. What a namespace has is granted from its
// first Service on, and of all those at the same turn: whoever wants much is denied
// before who wants little, and nobody loses anything by what a larger one adds.
func denied(of map[string][]Memory, room int) map[Memory]bool {
	type turn struct {
		upTo    int // clients of its namespace
		service string
		Memory
	}
	var turns []turn
	none, held, all := map[Memory]bool{}, map[string]int{}, 0
	for _, service := range slices.Sorted(maps.Keys(of)) {
		namespace := namespaceOf(service)
		for _, m := range of[service] {
			all += m.Clients()
			held[namespace] += m.Clients()
			turns = append(turns, turn{held[namespace], service, m})
		}
	}
	if all <= room {
		return none
	}
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.upTo, b.upTo), strings.Compare(a.service, b.service), a.compare(b.Memory))
	})
	for _, t := range turns {
		if room -= t.Clients(); room < 0 {
			none[t.Memory] = true
		}
	}
	return none
}

func namespaceOf(service string) string {
	namespace, _, _ := strings.Cut(service, "/")
	return namespace
}

// An endpoint's name is a number that the kernel carries as the priority of a packet, for
// want of another place: NameBits under NameMask tell it from what others have there.
const (
	NameMask = 0xc0000000
	NameBits = 0x40000000
	nameHere = 0x20000000 // of the endpoints of this node, which are a memory of their own
)

// name adds what leads from slots to endpoints by names. A name is the endpoint's whatever
// number it has, on every frontend, and after a restart.
func (e *KernelElements) name(f topology.Frontend, p Pick, slots []netip.AddrPort) {
	if p.Sticky == 0 {
		return
	}
	first := uint32(0)
	if p.Near {
		first = NearSlot
	}
	names := namesOf(slots, p.Session&1 != 0)
	for i, end := range slots {
		e.Names = append(e.Names, Name{f, first + uint32(i), names[end]})
		e.Ends = append(e.Ends, End{f, names[end], end})
	}
}

func namesOf(list []netip.AddrPort, here bool) map[netip.AddrPort]uint32 {
	names, taken := make(map[netip.AddrPort]uint32, len(list)), make(map[uint32]bool, len(list))
	for _, end := range slices.SortedFunc(slices.Values(list), netip.AddrPort.Compare) {
		name := nameOf(end, 0)
		for again := uint32(1); taken[name]; again++ { // so it is of one in a thousand Services with 1000 endpoints
			name = nameOf(end, again)
		}
		taken[name] = true
		if name |= NameBits; here {
			name |= nameHere
		}
		names[end] = name
	}
	return names
}

// nameOf is by a hash that nobody finds many addresses for which have one name.
func nameOf(end netip.AddrPort, again uint32) uint32 {
	ip := end.Addr().As16()
	of := binary.BigEndian.AppendUint16(ip[:], end.Port())
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(of, again))
	return binary.BigEndian.Uint32(sum[:]) % nameHere
}
