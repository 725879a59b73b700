package edge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What lacks is named before anything starts, with what builds it.
func TestMissingIn(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bin")
	if err := missingIn(bin); err == nil || !strings.Contains(err.Error(), strings.Join(programs, ", ")+": run make build kube envoy in ") {
		t.Errorf("of no bin/: %v", err)
	}
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := missingIn(bin); err != nil {
		t.Errorf("of all: %v", err)
	}
	if err := os.Chmod(filepath.Join(bin, "kube"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := missingIn(bin); err == nil || !strings.Contains(err.Error(), " lacks kube: ") {
		t.Errorf("of a kube that cannot be executed: %v", err)
	}
}
