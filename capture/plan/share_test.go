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

// What is closed is what clients have above their share, and only where others
// find hardly any room; who came first stays.
func TestExcess(t *testing.T) {
	type conn struct {
		client string
		number uint64
	}
	opened := func(c conn) (netip.Addr, uint64) { return netip.MustParseAddr(c.client), c.number }
	const a, b, node = "10.244.0.1", "fd00:244::1", "192.0.2.1"
	// Nine, and a has five of them, b three; the kernel tells them in any order.
	open := []conn{{a, 70}, {b, 20}, {a, 10}, {a, 90}, {node, 95}, {b, 60}, {a, 1 << 31}, {b, 40}, {a, 30}}
	for _, step := range []struct {
		what       string
		share, all int
		want       []conn
	}{
		{"full", 3, 9, []conn{{a, 90}, {a, 1 << 31}}},
		{"as good as full", 3, 10, []conn{{a, 90}, {a, 1 << 31}}},
		{"not full", 3, 11, nil},
		{"Envoy closes what is too much", 3, 8, []conn{{a, 90}, {a, 1 << 31}}},
		{"several are over", 2, 10, []conn{{b, 60}, {a, 70}, {a, 90}, {a, 1 << 31}}},
		{"nobody is over", 5, 9, nil},
		{"one may have more than Envoy takes", 20, 9, nil},
		{"one may have as many as it likes", 0, 9, nil},
		{"Envoy takes as many as there are", 3, 0, nil},
		{"neither is bounded", 0, 0, nil},
	} {
		before := slices.Clone(open)
		if got := Excess(open, opened, step.share, step.all); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v is closed, want %v", step.what, got, step.want)
		}
		if !slices.Equal(open, before) {
			t.Fatalf("%s: what is open was put in another order", step.what)
		}
	}
	if got := Excess(nil, opened, 1, 1); got != nil {
		t.Errorf("of none, %v", got)
	}
}
