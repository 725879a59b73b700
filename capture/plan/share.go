package plan

import (
	"cmp"
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

// Excess picks what is closed so that others find room: where the open
// connections are nine tenths of all that Envoy takes, or more, those that a
// client holds above its share, the newest of them. Elsewhere, and without a
// bound (0), nobody is in anybody's way.
//
// opened numbers connections upwards, as far as anybody can tell.
func Excess[C any](open []C, opened func(C) (client netip.Addr, number uint64), share, all int) (excess []C) {
	if share == 0 || all == 0 || len(open) < all-all/10 {
		return nil
	}
	oldest := slices.SortedFunc(slices.Values(open), func(a, b C) int {
		_, x := opened(a)
		_, y := opened(b)
		return cmp.Compare(x, y)
	})
	kept := map[netip.Addr]int{}
	for _, c := range oldest {
		client, _ := opened(c)
		if kept[client] == share {
			excess = append(excess, c)
			continue
		}
		kept[client]++
	}
	return excess
}
