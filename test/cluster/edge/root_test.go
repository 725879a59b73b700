package edge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The checkout is that of the program, wherever people are; other modules, and
// those inside the checkout, are none.
func TestFindRoot(t *testing.T) {
	top := t.TempDir()
	for path, first := range map[string]string{
		"ours/go.mod":           module + "\ngo 1.26.0\n",
		"ours/test/kube/go.mod": strings.TrimSpace(module) + "/test/kube\n",
		"ours/bin/race/lab":     "",
		"theirs/go.mod":         "module example.com/theirs\n",
	} {
		file := filepath.Join(top, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(path string) string { return filepath.Join(top, path) }
	for _, from := range [][]string{
		{in("ours/bin"), "/"}, {in("ours/bin/race"), in("theirs")}, {in("theirs"), in("ours/test/kube")}, {"/", in("ours")},
	} {
		if got, err := findRoot(from...); err != nil || got != in("ours") {
			t.Errorf("from %q: %q, %v; want %q", from, got, err, in("ours"))
		}
	}
	if got, err := findRoot("/", in("theirs")); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("from none: %q, %v", got, err)
	}
}
