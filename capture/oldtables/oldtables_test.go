package oldtables

import (
	"slices"
	"testing"
)

// entry is the begin of a chain as it lies in the kernel, behind some bytes of what is before it.
func entry(name string) []byte {
	target := make([]byte, 7+2+30+32+30)
	copy(target[7+2:], "ERROR")
	copy(target[7+32:], name)
	return target
}

// Chains are found by their entries, wherever what was read ends.
func TestNamesOfChains(t *testing.T) {
	all := slices.Concat([]byte("cali-of-a-comment\x00"), entry("cali-FORWARD"), entry("mine"), entry("cali-FORWARD"), entry("ERROR"))
	if got := names(all); !slices.Equal(got, []string{"cali-FORWARD", "mine"}) {
		t.Errorf("found %q", got)
	}
	for n := range all {
		for _, name := range names(all[:n]) {
			if name != "cali-FORWARD" && name != "mine" {
				t.Errorf("%q is found in the first %d bytes", name, n)
			}
		}
	}
}
