package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutations are faults of health/vote that the simulator has to catch, each with a run that
// does: a verdict is wrong there.
var mutations = []struct {
	name, file, was, is, run string
}{
	{"more than half of those that were heard decide", "rule.go", "2*no > n", "no > yes", "--nodes 20 --fault halves --for 30m"},
	{"half of the unit decides", "rule.go", "2*no > n", "2*no >= n", "--nodes 20 --fault halves --for 30m"},
	{"who observes a node decides", "ask.go", "Decide(m.view.Len(), p.Yes, p.No)", "Decide(min(m.view.Len(), 10), p.Yes, p.No)", "--nodes 20 --fault halves --for 30m"},
}

// The real vote with one line changed is caught; as it is, the same runs are clean.
func TestMutationsAreCaught(t *testing.T) {
	const dir = "../../health/vote"
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join(dir, m.file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(text), m.was) != 1 {
				t.Fatalf("%s has not one %q: the mutation is to be made anew", path, m.was)
			}
			mutated, overlay := filepath.Join(t.TempDir(), m.file), filepath.Join(t.TempDir(), "overlay.json")
			write(t, mutated, strings.Replace(string(text), m.was, m.is, 1))
			replace, _ := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
			write(t, overlay, string(replace))
			program := filepath.Join(t.TempDir(), "healthsim")
			if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			args := append(strings.Fields(m.run), "--strict")
			out, err := exec.Command(program, args...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("nobody notices: %v\n%s", err, out)
			}
			var clean strings.Builder
			if code, err := run(args, &clean); code != 0 || err != nil {
				t.Errorf("nothing is changed, and %d, %v:\n%s", code, err, clean.String())
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
