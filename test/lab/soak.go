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

	"github.com/gridmesh/gridmesh/test/cluster/edge"
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
	before, err := ours()
	if err != nil {
		return err
	}
	// What is started here ends with this thread, whatever ends this program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range s.spin {
		cmd := self("spin")
		if err := cmd.Start(); err != nil {
			return err
		}
		before = append(before, cmd.Process.Pid)
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	defer s.print()
	for i := range s.runs {
		if err := s.once(ctx, i); err != nil {
			return err
		}
		now, err := ours()
		if err != nil {
			return err
		}
		if left := slices.DeleteFunc(now, func(pid int) bool { return slices.Contains(before, pid) }); len(left) > 0 {
			return fmt.Errorf("run %d left processes behind: %v", i+1, left)
		}
	}
	return nil
}

// once runs one demonstration, whose output matters only if it fails.
func (s *soak) once(ctx context.Context, i int) error {
	var out bytes.Buffer
	cmd := self("demo")
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

// ours are the processes of this checkout's programs.
func ours() (pids []int, err error) {
	bin := filepath.Join(edge.Root(), "bin") + "/"
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ESRCH):
			continue // it has ended, or it is somebody else's
		case err != nil:
			return nil, err
		}
		var pid int
		if _, err := fmt.Sscanf(link, "/proc/%d/exe", &pid); err == nil && strings.HasPrefix(target, bin) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
