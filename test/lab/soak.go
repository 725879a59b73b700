package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// demoEnd is how long a demonstration may take to end when it is told to.
const demoEnd = 30 * time.Second

func soakCommand() *cobra.Command {
	s := &soak{}
	cmd := &cobra.Command{
		Use: "soak", Short: "Run the demonstration many times on a busy machine; none may fail", Args: cobra.NoArgs,
		Example: "  lab soak --runs 10 --spin 1",
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	cmd.Flags().IntVar(&s.runs, "runs", 50, "how often")
	cmd.Flags().IntVar(&s.spin, "spin", 3, "processes that use up the machine meanwhile")
	return cmd
}

// spinCommand uses up a core.
func spinCommand() *cobra.Command {
	return &cobra.Command{Use: "spin", Hidden: true, Args: cobra.NoArgs, Run: func(cmd *cobra.Command, _ []string) {
		for cmd.Context().Err() == nil {
		}
	}}
}

// soak is a series of demonstrations.
type soak struct {
	runs, spin int
	took       []time.Duration
}

func (s *soak) run(ctx context.Context) error {
	if s.runs < 1 || s.spin < 0 {
		return usagef("--runs %d --spin %d: at least 1 and 0", s.runs, s.spin)
	}
	if err := missing(); err != nil {
		return err
	}
	printFacts()
	fmt.Printf("%d demonstrations beside %d processes that spin\n", s.runs, s.spin)
	// What is started here ends with this thread, whatever ends this program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range s.spin {
		cmd := self("spin")
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	defer s.print()
	for i := range s.runs {
		mark := fmt.Sprintf("%s=%d-%d", demoMark, time.Now().UnixNano(), i)
		if err := s.once(ctx, i, mark); err != nil {
			return err
		}
		left, err := marked(mark)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("run %d left processes behind: %v", i+1, left)
		}
	}
	return nil
}

// once runs one demonstration, whose output matters only if it fails.
func (s *soak) once(ctx context.Context, i int, mark string) error {
	var out bytes.Buffer
	cmd := self("demo")
	cmd.Env = append(os.Environ(), mark)
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(demoEnd):
			_ = cmd.Process.Kill()
		}
	})
	defer stop()
	err := cmd.Wait()
	close(ended)
	took := time.Since(start)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped in run %d of %d", i+1, s.runs)
	case err != nil:
		fmt.Printf("run %d of %d failed after %s:\n%s\n", i+1, s.runs, took.Round(100*time.Millisecond), &out)
		return fmt.Errorf("run %d of %d failed: %w", i+1, s.runs, err)
	}
	s.took = append(s.took, took)
	fmt.Printf("run %d of %d: %s\n", i+1, s.runs, took.Round(100*time.Millisecond))
	return nil
}

func (s *soak) print() {
	if len(s.took) == 0 {
		return
	}
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	fmt.Printf("%d of %d demonstrations passed; they took %s at least, %s in the middle, %s at most\n",
		len(s.took), s.runs, round(slices.Min(s.took)), round(median(s.took)), round(slices.Max(s.took)))
}

// self is this program again. It ends with the thread that starts it.
func self(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// demoMark is a variable that a demonstration is started with. Whatever it starts
// inherits it, and nothing that others run beside it has it.
const demoMark = "GRIDMESH_DEMO"

// marked are the processes that have a variable from their start.
func marked(variable string) (pids []int, err error) {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		env, err := os.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ESRCH):
			continue // it has ended, or it is somebody else's
		case err != nil:
			return nil, err
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/environ", &pid); err == nil && slices.Contains(strings.Split(string(env), "\x00"), variable) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
