package plan

import (
	"maps"
	"net/netip"
	"slices"
)

// Share tells which clients hold more connections than one of them may. Who
// was over stays so until it holds clearly less, so that nobody flaps.
type Share struct{ over map[netip.Addr]bool }

// Judge takes how many connections each client holds and how many one may. It
// returns who may open no more, sorted, and who of them could until now.
func (s *Share) Judge(held map[netip.Addr]int, most int) (over, fresh []netip.Addr) {
	next := map[netip.Addr]bool{}
	for client, n := range held {
		switch was := s.over[client]; {
		case was && n > most-most/10:
			next[client] = true
		case n > most:
			next[client] = true
			fresh = append(fresh, client)
		}
	}
	s.over = next
	slices.SortFunc(fresh, netip.Addr.Compare)
	return slices.SortedFunc(maps.Keys(next), netip.Addr.Compare), fresh
}

// Any reports whether anybody is over its share.
func (s *Share) Any() bool { return len(s.over) > 0 }
