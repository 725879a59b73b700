package sandbox

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/gridmesh/gridmesh/test/cluster/cgroup"
)

// files says how many files the process inside was given: aliveFile, which
// ends when the process outside does, and handedFile.
const (
	files      = "GRIDMESH_SANDBOX_FILES"
	aliveFile  = 3
	handedFile = 4
)

// give gives the process inside its files; hand may be nil.
func give(cmd *exec.Cmd, alive, hand *os.File) {
	cmd.ExtraFiles = []*os.File{alive}
	if hand != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, hand)
	}
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", files, len(cmd.ExtraFiles)))
}

// received takes them. This process ends with the one outside, also where that
// was killed before this one had asked the kernel for a signal. A program that
// is started again inside has no files.
func received() (handed *os.File) {
	count := os.Getenv(files)
	_ = os.Unsetenv(files)
	if count == "" {
		return nil
	}
	syscall.CloseOnExec(aliveFile)
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(aliveFile, "alive"))
		os.Exit(128 + int(syscall.SIGKILL))
	}()
	if count == "1" {
		return nil
	}
	syscall.CloseOnExec(handedFile)
	return os.NewFile(handedFile, "handed")
}

// startSweeper gives the sandbox the name of its control groups and starts
// what removes them when the process outside ends, however it does. Groups that
// others left when the sweeper was killed, too, go now. It returns what waits
// for the sweeper's end.
func startSweeper(cmd *exec.Cmd, alive *os.File) (wait func(), err error) {
	if os.Geteuid() != 0 {
		return func() {}, nil // and there are none
	}
	if err := cgroup.Sweep(); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox: remove what others left:", err)
	}
	name, err := cgroup.Own()
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, cgroup.Env+"="+name)
	s := self(sweeper, cgroup.Env+"="+name)
	s.Stdin = alive
	s.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the others' group is not for it
	if err := s.Start(); err != nil {
		return nil, fmt.Errorf("start what removes control groups: %w", err)
	}
	return func() { _ = s.Wait() }, nil
}

// sweep is the sweeper's life.
func sweep() int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := cgroup.Remove(os.Getenv(cgroup.Env)); err != nil {
		return failed(err)
	}
	return 0
}
