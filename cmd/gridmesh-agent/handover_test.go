package main

import (
	"strings"
	"testing"
)

// Nothing is handed over to what a kube-proxy left, nor for a family that it does not serve.
func TestLacking(t *testing.T) {
	both, four := []string{"ip", "ip6"}, []string{"ip"}
	for name, tc := range map[string]struct {
		ours, theirs []string
		alive, want  string
	}{
		"it serves":                 {both, both, "it runs", ""},
		"it serves more":            {four, both, "it runs", ""},
		"it lacks one":              {both, four, "it runs", "IPv6"},
		"it begins":                 {both, nil, "it runs", "IPv4 and IPv6"},
		"it left rules":             {both, both, "", "no sign"},
		"nothing is to be handed":   {nil, nil, "", ""},
		"nobody runs, nothing left": {both, nil, "", "no sign"},
	} {
		if got := lacking(tc.ours, tc.theirs, tc.alive); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
