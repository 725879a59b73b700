package arch

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// planned are the rooms that the laws name before they are there, so that their first
// file has to keep them.
var planned = []string{"autonomy", "tunnel"}

// Whoever reads the laws finds the folders that they name, or that one is planned.
func TestLawsNameFolders(t *testing.T) {
	for _, folder := range slices.Concat(slices.Sorted(maps.Keys(layers)), pure, pureInternal) {
		room, _, _ := strings.Cut(folder, "/")
		if yet := slices.Contains(planned, room); exists(folder) == yet {
			t.Errorf("the laws name the folder %s: is there = %v, planned = %v", folder, exists(folder), yet)
		}
	}
}
