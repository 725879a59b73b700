package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The README has every rule, and every file.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, r := range rules {
		reason, _, _ := strings.Cut(r.reason, ":")
		if !strings.Contains(text, reason) {
			t.Errorf("README.md has no reason %q of the rule %s", r.reason, r.name)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") && name != "doc.go" && !strings.Contains(text, "`"+name+"`") {
			t.Errorf("README.md does not list %s", name)
		}
	}
}
