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

// edit is a line of health/vote that is another one.
type edit struct{ file, was, is string }

// halfLeads has half of a unit be enough to lead: as the rule is, nobody leads there, and so
// nobody decides. To decide wrongly both have to fail.
var halfLeads = edit{"quorum.go", "m.view.Len()/2 + 1", "m.view.Len() / 2"}

// noDoubt has a node that sees few of the others deny the rest all the same.
var noDoubt = edit{"doubt.go", "m.checked >= few && 2*m.failed > m.checked", "m.checked < 0"}

// mutations are faults of health/vote that the simulator has to catch, each with a run that
// does: a verdict is wrong there.
var mutations = []struct {
	name  string
	edits []edit
	run   string
}{
	{"more than half of those that were heard decide", []edit{halfLeads, {"rule.go", "2*no > n", "no > yes"}}, "--nodes 20 --fault halves --for 30m"},
	{"half of the unit decides", []edit{halfLeads, noDoubt, {"rule.go", "2*no > n", "2*no >= n"}}, "--nodes 20 --fault halves --for 30m"},
	{"who observes a node decides", []edit{halfLeads, {"ask.go", "Decide(m.view.Len(), p.Yes, p.No)", "Decide(min(m.view.Len(), 10), p.Yes, p.No)"}}, "--nodes 20 --fault halves --for 30m"},
}

// The real vote with these lines changed is caught; as it is, the same runs are clean.
func TestMutationsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds three programs")
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			overlay, replaced := filepath.Join(t.TempDir(), "overlay.json"), map[string]string{}
			for _, e := range m.edits {
				path, mutated := e.apply(t)
				replaced[path] = mutated
			}
			replace, _ := json.Marshal(map[string]any{"Replace": replaced})
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

// apply makes a file in which the line is the other one, for an original.
func (e edit) apply(t *testing.T) (path, mutated string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../health/vote", e.file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), e.was) != 1 {
		t.Fatalf("%s has not one %q: the mutation is to be made anew", path, e.was)
	}
	mutated = filepath.Join(t.TempDir(), e.file)
	write(t, mutated, strings.Replace(string(text), e.was, e.is, 1))
	return path, mutated
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
