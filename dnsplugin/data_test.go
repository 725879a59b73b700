package dnsplugin

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server that has a snapshot begins with it while its kubeconfig cannot be used; one that has
// none says what is wrong.
func TestAKubeconfigThatIsEmpty(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct {
		snapshot string
		serves   bool
	}{
		"with a snapshot": {write("snapshot", "whatever"), true}, "none yet": {filepath.Join(dir, "none"), false}, "none asked for": {"", false},
	} {
		c := config{source: &url.URL{Scheme: "kubeconfig", Path: write("kubeconfig", "")}, snapshot: tc.snapshot}
		feed, err := c.open()
		if (feed != nil) != tc.serves || (err == nil) != tc.serves || err != nil && !strings.Contains(err.Error(), "has none") {
			t.Errorf("%s: %v, %v", name, feed, err)
		}
	}
}
