package topology

import (
	"fmt"
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

// The pages say the number that counts here.
func TestTheBoundOnThePages(t *testing.T) {
	number := fmt.Sprintf("%d,%03d", mostTargets.service/1000, mostTargets.service%1000)
	for _, page := range []string{"README.md", "../docs/topology.md", "../docs/limits.md"} {
		if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), number) {
			t.Errorf("%s does not say %s: %v", page, number, err)
		}
	}
}
