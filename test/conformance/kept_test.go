package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/test/conformance/score"
)

func mustKeep(t *testing.T, dir, programs string, resume bool) *kept {
	t.Helper()
	k, err := keep(dir, programs, resume)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A run that is gone on with has what was judged, and runs the rest: what was
// never begun, and what was begun and not judged.
func TestResume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gridmesh")
	k := mustKeep(t, dir, "v1", false)
	for spec, state := range map[string]score.State{"a": score.Passed, "b": score.Failed, "c": score.Absent, "d": score.Skipped} {
		if err := k.add(score.Outcome{Spec: spec, State: state}); err != nil {
			t.Fatal(err)
		}
	}
	k = mustKeep(t, dir, "v1", true) // as after kill -9: nothing was said to it
	if got := k.left([]string{"a", "b", "c", "d", "e"}); !slices.Equal(got, []string{"c", "e"}) {
		t.Errorf("left: %q", got)
	}
	if err := k.add(score.Outcome{Spec: "c", State: score.Passed}); err != nil {
		t.Fatal(err)
	}
	file, err := readOutcomes(dir)
	if err != nil || len(file.Outcomes) != 4 || file.Outcomes[2] != (score.Outcome{Spec: "c", State: score.Passed}) {
		t.Errorf("%+v, %v", file, err)
	}
	if k = mustKeep(t, dir, "v1", false); len(k.left([]string{"a", "b"})) != 2 {
		t.Error("a new run has an old one's outcomes")
	}
}

// Outcomes of two versions are not one column; a run begins there, and one
// whose file is broken does not go on as if nothing had been judged.
func TestResumeOfWhatCannotBe(t *testing.T) {
	dir := t.TempDir()
	if left := mustKeep(t, dir, "v1", true).left([]string{"a"}); len(left) != 1 {
		t.Errorf("nothing was run before, and %q is left", left)
	}
	if _, err := keep(dir, "v2", true); !errors.Is(err, errOtherPrograms) {
		t.Errorf("outcomes of other programs: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "outcomes.json"), []byte(`{"outcomes": [`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keep(dir, "v1", true); err == nil {
		t.Error("a broken file is no error")
	}
	mustKeep(t, dir, "v2", false)
}
