package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A table of connections that has no room is told; one that has some is not, nor is a kernel that does not say.
func TestTrackingFull(t *testing.T) {
	for have, told := range map[[2]string]bool{
		{"1000", "262144"}: false, {"262144", "262144"}: true, {"262000", "262144"}: true, {"240000", "262144"}: false,
		{"", ""}: false, {"5", "0"}: false, {"odd", "100"}: false,
	} {
		dir := t.TempDir()
		for i, name := range []string{"nf_conntrack_count", "nf_conntrack_max"} {
			if have[i] != "" {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(have[i]+"\n"), 0o600))
			}
		}
		if got := trackingFull(dir); (len(got) == 1) != told {
			t.Errorf("%s of %s: told is %s", have[0], have[1], fmt.Sprint(got))
		}
	}
}
