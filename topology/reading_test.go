package topology_test

import (
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

func TestParseReading(t *testing.T) {
	for text, want := range map[string]Reading{"ordered": Ordered, "union": Union} {
		if got, err := ParseReading(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Union", "both"} {
		if _, err := ParseReading(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	if _, err := ParseReading("both"); err.Error() != `"both" is not known; use ordered or union` {
		t.Error(err)
	}
}

func TestRanksAreInOrder(t *testing.T) {
	const tiers = 17 // 16 keys, and "*"
	order := []Rank{RankAlways}
	for i := range tiers {
		order = append(order, RankTier(i))
	}
	order = append(order, RankShared, RankUsed, RankNone)
	for i := 1; i < len(order); i++ {
		if order[i-1] >= order[i] {
			t.Errorf("rank %d is not before %d", order[i-1], order[i])
		}
	}
	if RankTier(0) != RankFirst {
		t.Error("the first tier has not the first rank")
	}
}
