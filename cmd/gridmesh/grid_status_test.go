package main

import (
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// What a plan says as well is no news of the controller's, also where the message was too
// long to be kept whole.
func TestWhatTheControllerSaysBesides(t *testing.T) {
	long := strings.Repeat("so it is; ", 60) + "mend it"
	problems := []topology.Problem{{Object: "g", Field: "spec.a", Text: "is wrong; mend it"}, {Object: "g", Field: "unit a", Text: long}, {Object: "g", Field: "unit b", Text: long}}
	const first, stale, refused = "spec.a: is wrong; mend it", "spec.rollout.order: no node; label one", "unit c: was refused; ask why"
	within := plan.Cut(first + "; unit c: " + strings.Repeat("it was refused ", 100))
	for name, tc := range map[string]struct{ message, since, other string }{
		"nothing":             {"", "", ""},
		"the same":            {first, "", ""},
		"one more":            {first + "; " + refused, "", refused},
		"one before":          {first + "; " + stale, stale, ""},
		"of another version":  {"spec.b: is wrong; mend it, too", "", "spec.b: is wrong; mend it, too"},
		"between":             {first + "; " + refused + "; unit a: " + long, "", refused},
		"one before, and one": {stale + "; " + refused, stale, refused},
		"cut":                 {plan.Cut(first + "; unit a: " + long + "; unit b: " + long), "", ""},
		"cut behind one":      {plan.Cut(refused + "; unit a: " + long + "; unit b: " + long), "", refused},
		"cut within it":       {within, "", strings.TrimPrefix(within, first+"; ")},
	} {
		since, other := newsOf(tc.message, problems)
		if since != tc.since || other != tc.other {
			t.Errorf("%s: %q, %q", name, since, other)
		}
	}
}
