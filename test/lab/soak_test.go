package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// What a demonstration has started is found, also by a program that it started, and
// nothing that runs beside it: another demonstration of this checkout neither.
func TestWhatADemonstrationLeaves(t *testing.T) {
	start := func(mark string) int {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 100 & echo $!; wait")
		cmd.Env = append(os.Environ(), mark)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
		var child int
		if _, err := fmt.Fscanln(out, &child); err != nil {
			t.Fatal(err)
		}
		return child
	}
	const mine = demoMark + "=1-1"
	child, other := start(mine), start(demoMark+"=1-12")
	pids, err := marked(mine)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(pids, child) || len(pids) != 2 || slices.Contains(pids, other) {
		t.Errorf("found %v: want the parent of %d and it, and not %d", pids, child, other)
	}
}

func TestSoakRefusesNonsense(t *testing.T) {
	for _, s := range []soak{{runs: 0, spin: 3}, {runs: 1, spin: -1}} {
		if err := s.run(t.Context()); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
}
