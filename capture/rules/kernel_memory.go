package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// memoryPrefix begins the names of memories.
const memoryPrefix = "sticky"

// MemoryName is the map of a memory: client -> the name of its endpoint, for as long as the
// affinity lasts. The name says all that there is to know of it.
func MemoryName(m plan.Memory) string {
	f := IPv4
	if m.IPv6 {
		f = IPv6
	}
	return memoryPrefix + string(f) + "_" + sessionName(m.ID, m.Many)
}

func memoryOf(p plan.Pick) string {
	m, _ := p.Memory()
	return MemoryName(m)
}

// MemorySet is that map.
func MemorySet(m plan.Memory) Set {
	addr := "ipv4_addr"
	if m.IPv6 {
		addr = "ipv6_addr"
	}
	return Set{Name: MemoryName(m), Type: []string{addr}, Data: []string{"classid"}, Timeout: true, Dynamic: true, Size: uint32(m.Clients())}
}

// ParseMemory is the memory of a map that MemoryName named.
func ParseMemory(name string) (m plan.Memory, ok bool) {
	family, session, _ := strings.Cut(strings.TrimPrefix(name, memoryPrefix), "_")
	m.IPv6 = family == string(IPv6)
	m.ID, m.Many = parseSession(session)
	return m, MemoryName(m) == name
}

func sessionName(id uint64, many bool) string {
	if many {
		return fmt.Sprintf("%016xm", id)
	}
	return fmt.Sprintf("%016x", id)
}

func parseSession(text string) (id uint64, many bool) {
	text, many = strings.CutSuffix(text, "m")
	id, _ = strconv.ParseUint(text, 16, 64)
	return id, many
}
