package main

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// The programs of bin/ that run are found, and no others.
func TestOurs(t *testing.T) {
	pids, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), "sleep", "100")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	if slices.Contains(pids, os.Getpid()) || slices.Contains(pids, other.Process.Pid) {
		t.Errorf("a process that is none of ours is among %v", pids)
	}
}

func TestSoakRefusesNonsense(t *testing.T) {
	for _, s := range []soak{{runs: 0, spin: 3}, {runs: 1, spin: -1}} {
		if err := s.run(t.Context()); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
}
