package plan

import (
	"net/netip"
	"slices"
	"testing"
)

func TestShare(t *testing.T) {
	a, b := netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("fd00:244::1")
	var s Share
	for i, step := range []struct {
		held        map[netip.Addr]int
		most        int
		over, fresh []netip.Addr
	}{
		{map[netip.Addr]int{a: 100, b: 3}, 100, nil, nil},
		{map[netip.Addr]int{a: 101, b: 3}, 100, []netip.Addr{a}, []netip.Addr{a}},
		{map[netip.Addr]int{a: 91, b: 102}, 100, []netip.Addr{a, b}, []netip.Addr{b}},
		{map[netip.Addr]int{a: 90, b: 102}, 100, []netip.Addr{b}, nil}, // a tenth less
		{map[netip.Addr]int{a: 95, b: 102}, 100, []netip.Addr{b}, nil},
		{map[netip.Addr]int{b: 102}, 1000, nil, nil}, // another Envoy, with more memory
		{nil, 100, nil, nil},
	} {
		over, fresh := s.Judge(step.held, step.most)
		if !slices.Equal(over, step.over) || !slices.Equal(fresh, step.fresh) || s.Any() != (len(step.over) > 0) {
			t.Errorf("step %d: over %v, fresh %v; want %v, %v", i, over, fresh, step.over, step.fresh)
		}
	}
}
