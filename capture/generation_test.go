package capture

import (
	"math"
	"testing"
)

// Only what was written without anybody else in between is known for harmless.
func TestHarmlessTransactions(t *testing.T) {
	const last = math.MaxUint32
	for name, tc := range map[string]struct {
		wrote     [][2]uint32
		gen, want uint32
	}{
		"nothing":               {nil, 7, 7},
		"one":                   {[][2]uint32{{7, 8}}, 7, 8},
		"some":                  {[][2]uint32{{7, 8}, {8, 9}, {9, 10}}, 8, 10},
		"all of them known":     {[][2]uint32{{7, 8}, {8, 9}}, 9, 9},
		"others before":         {[][2]uint32{{7, 8}}, 6, 6},
		"others after":          {[][2]uint32{{7, 8}}, 9, 9},
		"others between two":    {[][2]uint32{{7, 8}, {9, 10}}, 7, 7},
		"others with one":       {[][2]uint32{{7, 8}, {8, 10}}, 7, 7},
		"after others with one": {[][2]uint32{{7, 8}, {8, 10}, {10, 11}}, 10, 11},
		"unknown":               {[][2]uint32{{last, 1}}, 0, 0},
		"around the end":        {[][2]uint32{{last - 1, last}, {last, 1}, {1, 2}}, last, 2},
		"around, others before": {[][2]uint32{{last, 1}, {1, 2}}, last - 1, last - 1},
	} {
		var h harmless
		for _, w := range tc.wrote {
			h.add(w[0], w[1])
		}
		if got := h.after(tc.gen); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
