package preload

import (
	"fmt"
	"slices"
	"testing"
)

// A loop that hangs lets no Envoy fill the agent's memory with names.
func TestDemandIsBounded(t *testing.T) {
	d := NewDemand()
	for i := range 3 * maxDemand {
		d.Add([]string{fmt.Sprint(i), "again"})
	}
	if got := d.Take(); len(got) != maxDemand || got[1] != "again" || slices.Contains(got[2:], "again") {
		t.Errorf("%d names wait", len(got))
	}
	d.Add([]string{"again"})
	if got := d.Take(); !slices.Equal(got, []string{"again"}) || len(d.Take()) > 0 {
		t.Errorf("after a take: %v", got)
	}
}
