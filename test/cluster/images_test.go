package cluster

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Images of other programs than those in bin/ are not taken: a test would be of
// what was.
func TestStaleImages(t *testing.T) {
	bin := t.TempDir()
	inside := filepath.Join(bin, "images", "linux-"+runtime.GOARCH)
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(dir, program, text string) {
		if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"gridmesh", "gridmesh-agent", "gridmesh-controller", "gridmesh-dns", "gridmesh-admission", "gridmesh-health"} {
		write(bin, program, program)
		if err := staleImages(bin); err == nil || !strings.Contains(err.Error(), filepath.Join(inside, program)) {
			t.Errorf("without %s: %v", program, err)
		}
		write(inside, program, program)
	}
	if err := staleImages(bin); err != nil {
		t.Errorf("of the same programs: %v", err)
	}
	write(bin, "gridmesh-agent", "another")
	if err := staleImages(bin); err == nil || !strings.Contains(err.Error(), "another gridmesh-agent than") {
		t.Errorf("of another agent: %v", err)
	}
}
