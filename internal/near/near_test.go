package near

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSlips(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"image", "image", 0},
		{"imgae", "image", 1},
		{"imag", "image", 1},
		{"iimage", "image", 1},
		{"imape", "image", 1},
		{"kitten", "sitting", 3},
		{"abc", "xyz", 3},
		{"ab", "ba", 1},
		{"abcd", "badc", 2},
	} {
		for most := range 5 {
			want := min(tc.want, most+1)
			if got := Slips(tc.a, tc.b, most); got != want {
				t.Errorf("%q, %q, at most %d: %d, want %d", tc.a, tc.b, most, got, want)
			}
			if got := Slips(tc.b, tc.a, most); got != want {
				t.Errorf("%q, %q, at most %d: %d, want %d", tc.b, tc.a, most, got, want)
			}
		}
	}
}

// Slips is what the plain table says, of all words, however long.
func TestSlipsIsLikeItsTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(long int) string {
		text := make([]byte, long)
		for i := range text {
			text[i] = "abc"[r.IntN(3)]
		}
		return string(text)
	}
	for range 20000 {
		a, b, most := word(r.IntN(9)), word(r.IntN(9)), r.IntN(6)
		if got, want := Slips(a, b, most), min(twin(a, b), most+1); got != want {
			t.Fatalf("%q, %q, at most %d: %d, want %d", a, b, most, got, want)
		}
	}
	a, b := word(100), word(103)
	if got, want := Slips(a, b, 200), twin(a, b); got != want {
		t.Errorf("%q, %q: %d, want %d", a, b, got, want)
	}
}

// twin is the plain table of all slips.
func twin(a, b string) int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
		for j := range table[i] {
			switch {
			case i == 0 || j == 0:
				table[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				table[i][j] = table[i-1][j-1]
			default:
				table[i][j] = 1 + min(table[i-1][j-1], table[i-1][j], table[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				table[i][j] = min(table[i][j], table[i-2][j-2]+1)
			}
		}
	}
	return table[len(a)][len(b)]
}

func TestWord(t *testing.T) {
	list := []string{"image", "imagePullPolicy", "name", "env", "order", "rollout"}
	for word, want := range map[string]string{"imgae": "image", "rolout": "rollout", "north": "", "x": "", "": "", "ordre": "order", "evn": "env", "maxunits": ""} {
		if got := Word(word, list); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Word("nome", []string{"none", "name"}); got != "name" {
		t.Errorf("of two that are as near: %q", got)
	}
}

// Those that are there most often are common, whatever comes before them by alphabet.
func TestCommonWords(t *testing.T) {
	counts := map[string]int{"unit": 3, "zone": 2, "a": 1, "b": 1, "c": 1}
	for most, want := range map[int][]string{0: {}, 1: {"unit"}, 3: {"a", "unit", "zone"}, 9: {"a", "b", "c", "unit", "zone"}} {
		if got := Common(counts, most); !slices.Equal(got, want) {
			t.Errorf("the %d most common are %q, want %q", most, got, want)
		}
	}
}
