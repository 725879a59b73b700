// Package leaks lets a test watch the borders of every unit.
package leaks

import (
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// Kind is what must not cross a border.
type Kind int

// The kinds. Where a test gives a node to another unit, its connections to
// that unit's pods do cross the border: only Services then counts.
const (
	Services Kind = iota // packets still addressed to a Service
	Any                  // also new connections to another unit's pods
)

// None fails t when anything of a kind leaks between now and the end of the test, of these units,
// or of all.
func None(t *testing.T, lab *netlab.Lab, kind Kind, units ...string) {
	t.Helper()
	before := count(t, lab)
	t.Cleanup(func() {
		for unit, now := range count(t, lab) {
			if len(units) > 0 && !slices.Contains(units, unit) {
				continue
			}
			service, foreign := now.Service-before[unit].Service, now.Foreign-before[unit].Foreign
			t.Logf("unit %s: %d packets to Service addresses and %d new connections to foreign pods crossed the border", unit, service, foreign)
			if service > 0 || kind == Any && foreign > 0 {
				t.Errorf("unit %s leaked", unit)
			}
		}
	})
}

func count(t *testing.T, lab *netlab.Lab) map[string]netlab.Leaks {
	t.Helper()
	all := map[string]netlab.Leaks{}
	for _, u := range lab.Units {
		l, err := u.Leaks()
		if err != nil {
			t.Fatal(err)
		}
		all[u.Name] = l
	}
	return all
}
