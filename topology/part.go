package topology

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
)

// Part is tiers with so many endpoints at most: the nearest tiers have what there is,
// each later one an endpoint at least, and of a tier each node has others.
func Part(tiers []Tier, most int, node string) []Tier {
	out := slices.Clone(tiers)
	for i, t := range out {
		n := partOf(len(t.Endpoints), most, len(out)-i-1)
		if most -= n; n == len(t.Endpoints) {
			continue
		}
		own := ownOrder(node, t.Endpoints, func(e Target) netip.AddrPort { return e.Addr })[:n]
		slices.Sort(own)
		out[i].Endpoints = make([]Target, n)
		for to, from := range own {
			out[i].Endpoints[to] = t.Endpoints[from]
		}
	}
	return out
}

// partOf is how many endpoints a tier has of those that are left to it and to so many
// later ones.
func partOf(has, left, later int) int { return min(has, max(1, left-later)) }

// ownOrder are the places of a list in a node's own order: what one node has first
// others have later. What comes or goes moves nothing else.
func ownOrder[T any](node string, list []T, addr func(T) netip.AddrPort) []int {
	name := fnv.New64a()
	_, _ = name.Write([]byte(node)) // does not fail
	seed := name.Sum64()
	type turn struct {
		by uint64
		at int
	}
	turns := make([]turn, len(list)) // there may be thousands of ports: what is compared is computed once
	for i, x := range list {
		ip := addr(x).Addr().As16()
		turns[i] = turn{scatter(scatter(seed^binary.BigEndian.Uint64(ip[:8])) ^ binary.BigEndian.Uint64(ip[8:])), i}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		if a.by != b.by {
			return cmp.Compare(a.by, b.by)
		}
		return addr(list[a.at]).Compare(addr(list[b.at]))
	})
	order := make([]int, len(turns))
	for i, t := range turns {
		order[i] = t.at
	}
	return order
}

// scatter is the last step of SplitMix64: numbers that differ little are far apart.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
