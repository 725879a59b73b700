package edge

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// asked makes this program one that says what its clocks say, whenever it is asked.
const asked = "GRIDMESH_SAYS_THE_TIME"

func TestMain(m *testing.M) {
	if os.Getenv(asked) == "" {
		os.Exit(m.Run())
	}
	start := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), now.Sub(start).Nanoseconds())
	}
}

// The same of a program that has its clock of glibc.
const saysTheTime = `
import sys, time
start = time.monotonic_ns()
for line in sys.stdin:
    print(time.time_ns(), time.monotonic_ns() - start, flush=True)
`

// The wall clock of a program is set as often as one likes and its monotonic one
// goes on, whether it is Go's or glibc's, and also while it does not run.
func TestSetClock(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("on amd64 only")
	}
	programs := map[string][]string{"Go": {"/proc/self/exe"}}
	if python, err := exec.LookPath("python3"); err == nil {
		programs["glibc"] = []string{python, "-c", saysTheTime}
	}
	for name, argv := range programs {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			p, ask := speaker(t, argv)
			if name != "Go" {
				ask() // it may be started by another program in its place
			}
			for _, ahead := range []time.Duration{0, -time.Hour, 26 * time.Hour, 0, 2 * time.Minute} {
				if err := p.SetClock(ahead); err != nil {
					t.Fatal(err)
				}
				before := time.Now()
				wall, passed := ask()
				if after := time.Now(); wall.Before(before.Add(ahead).Round(0)) || wall.After(after.Add(ahead).Round(0)) {
					t.Errorf("set %s ahead it says %s between %s and %s", ahead, wall, before, after)
				}
				if passed < 0 || passed > time.Since(begun) {
					t.Errorf("set %s ahead it takes %s to have passed since %s", ahead, passed, begun)
				}
			}
		})
	}
}

func TestSetClockOfNoProgram(t *testing.T) {
	p, _ := speaker(t, []string{"/proc/self/exe"})
	p.Kill()
	if err := p.SetClock(time.Hour); err == nil {
		t.Error("the clock of a program that has ended was set")
	}
}

// A program that is stopped before its first instruction is not waited for, and has its
// clock set once it goes on.
func TestSetClockOfAPausedProgram(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("on amd64 only")
	}
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	p := &Process{Name: "paused", done: make(chan struct{}), log: &logBuffer{}, cmd: exec.Command("/proc/self/exe")}
	p.cmd.Env = append(os.Environ(), asked+"=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() }()
	if _, err := syscall.Wait4(p.PID(), nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := p.SetClock(time.Hour); !errors.Is(err, ErrPaused) {
		t.Errorf("while it is stopped: %v", err)
	}
	if took := time.Since(began); took > endPatience/2 {
		t.Errorf("it was waited for: %s", took)
	}
	if err := syscall.PtraceDetach(p.PID()); err != nil {
		t.Fatal(err)
	}
	if err := p.SetClock(time.Hour); err != nil {
		t.Errorf("once it goes on: %v", err)
	}
}

// speaker starts a program that says the time: its wall clock, and what has passed.
func speaker(t *testing.T, argv []string) (*Process, func() (time.Time, time.Duration)) {
	t.Helper()
	p := &Process{Name: t.Name(), cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asked+"=1")
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(p.Kill)
	return p, func() (time.Time, time.Duration) {
		t.Helper()
		var wall, passed int64
		if _, err := io.WriteString(in, "?\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscanln(out, &wall, &passed); err != nil {
			t.Fatal(err)
		}
		return time.Unix(0, wall), time.Duration(passed)
	}
}
