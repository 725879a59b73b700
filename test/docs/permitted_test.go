package docs

import (
	"regexp"
	"slices"
	"testing"
)

var (
	watched   = regexp.MustCompile(`selected\("([a-z-]+)"`)
	permitted = regexp.MustCompile(`\{"([a-z]+)", func\(\) error`)
)

// The CLI asks at once for a right to each kind that the feed watches, so that nobody
// waits for one that is forbidden.
func TestEachWatchedKindIsAskedFor(t *testing.T) {
	sameKind := []string{"foreign-services", "grid-endpointslices"} // as services and endpointslices, by other labels
	names := func(path string, of *regexp.Regexp) (list []string) {
		for _, m := range of.FindAllStringSubmatch(read(t, path), -1) {
			if !slices.Contains(sameKind, m[1]) {
				list = append(list, m[1])
			}
		}
		slices.Sort(list)
		return list
	}
	want := names("kube/feed/watches.go", watched)
	if got := names("cmd/gridmesh/permitted.go", permitted); len(want) < 4 || !slices.Equal(got, want) {
		t.Errorf("cmd/gridmesh/permitted.go asks for %q, kube/feed/watches.go watches %q", got, want)
	}
}
