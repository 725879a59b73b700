// Package near tells which word a mistyped one was meant to be.
package near

import (
	"cmp"
	"maps"
	"slices"
)

// Slips is how many slips make one word of another: a letter more, less or
// another, or two neighbours that changed places (optimal string alignment).
// Where they are more than most, it is most+1. Letters are bytes.
//
// It costs no more than most times the length of the shorter word, and no memory
// for words of up to 31 letters.
func Slips(a, b string, most int) int {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > most {
		return most + 1
	}
	var space [3 * 32]int32 // no more, for it is cleared each time
	rows, width := space[:], len(b)+1
	if 3*width > len(space) {
		rows = make([]int32, 3*width)
	}
	before, last, row := rows[:width], rows[width:2*width], rows[2*width:3*width]
	for j := range last {
		last[j] = int32(j)
	}
	many := int32(most + 1)
	for i := range len(a) {
		// Further from the diagonal there are too many slips in any case.
		from, to := max(0, i-most), min(len(b), i+most+1)
		row[from] = many
		if from == 0 {
			row[0] = int32(i + 1)
		}
		least := row[from]
		for j := from; j < to; j++ {
			n := last[j]
			if a[i] != b[j] {
				n++
			}
			n = min(n, row[j]+1)
			if j < i+most { // beyond it nothing was counted in the last row
				n = min(n, last[j+1]+1)
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, before[j-1]+1)
			}
			row[j+1] = n
			least = min(least, n)
		}
		if least >= many {
			return most + 1
		}
		before, last, row = last, row, before
	}
	return int(min(last[len(b)], many))
}

// Word is the word of a list that another is nearest to, or "" where none is
// near: a slip in three letters, three at most. Of those that are as near it is
// the first by alphabet.
func Word(word string, list []string) string {
	best, least := "", min(3, len(word)/3)+1
	for _, w := range slices.Sorted(slices.Values(list)) {
		if n := Slips(word, w, least-1); n < least {
			best, least = w, n
		}
	}
	return best
}

// MostMeant bounds the words of others' that are compared with one, as labels of nodes with a key:
// any kubelet may put any number onto its own Node.
const MostMeant = 128

// Common are at most so many of counted words, sorted: those that are there most often, the
// first by alphabet of as many.
func Common(counts map[string]int, most int) []string {
	words := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	words = words[:min(len(words), most)]
	slices.Sort(words)
	return words
}
