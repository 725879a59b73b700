package walk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// lab is a lab that was started, and how to talk to it.
type lab struct {
	t     *testing.T
	name  string // in its environment, and in that of all it starts
	cmd   *exec.Cmd
	out   testkit.Output
	ended chan struct{}
	begin time.Time
	tmp   string
}

var labs atomic.Int64

// launch starts a lab and does not wait for it.
func launch(t *testing.T, args ...string) *lab {
	t.Helper()
	l := &lab{t: t, name: fmt.Sprintf("walk-%d-%d", os.Getpid(), labs.Add(1)), ended: make(chan struct{}), begin: time.Now(), tmp: t.TempDir()}
	l.cmd = l.command(append([]string{"up"}, args...)...)
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	l.cmd.WaitDelay = time.Second
	must(t, l.cmd.Start())
	go func() {
		_ = l.cmd.Wait()
		close(l.ended)
	}()
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		<-l.ended
		if t.Failed() {
			t.Logf("lab %s:\n%s", strings.Join(args, " "), l.out.String())
		}
	})
	return l
}

// up is launch, and waits until the lab is there.
func up(t *testing.T, args ...string) *lab {
	t.Helper()
	l := launch(t, args...)
	wait.Within(t, 2*wait.Patience, func() error {
		if strings.Contains(l.out.String(), "\nup") {
			return nil
		}
		if l.hasEnded() {
			t.Fatalf("the lab ended before it was up:\n%s", l.out.String())
		}
		return errors.New("it is not up")
	})
	t.Logf("up after %s", time.Since(l.begin).Round(100*time.Millisecond))
	return l
}

func (l *lab) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

func (l *lab) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(edge.Root(), "bin", "lab"), args...)
	cmd.Env = append(os.Environ(), variable+l.name, "TMPDIR="+l.tmp)
	return cmd
}

const variable = "GRIDMESH_LAB="

// does runs a command of people and returns what it said, and its exit code.
func (l *lab) does(args ...string) (string, int) {
	return l.reads("", args...)
}

// reads is does with standard input.
func (l *lab) reads(input string, args ...string) (string, int) {
	l.t.Helper()
	cmd := l.command(args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		l.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// says fails unless a command exits with a code and says all of what is wanted.
func (l *lab) says(code int, args []string, want ...string) {
	l.t.Helper()
	if err := l.try(code, args, want...); err != nil {
		l.t.Error(err)
	}
}

// try is says for what may come later.
func (l *lab) try(code int, args []string, want ...string) error {
	out, got := l.does(args...)
	if got != code {
		return fmt.Errorf("lab %q: exit code %d, want %d:\n%s", args, got, code, out)
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			return fmt.Errorf("lab %q does not say %q:\n%s", args, w, out)
		}
	}
	return nil
}

// comes waits until a command succeeds and says all of what is wanted.
func (l *lab) comes(args []string, want ...string) {
	l.t.Helper()
	wait.Eventually(l.t, func() error { return l.try(0, args, want...) })
}

// line is a node's line of "lab status".
func (l *lab) line(node string) string {
	l.t.Helper()
	out, code := l.does("status")
	if code != 0 {
		l.t.Fatalf("lab status: exit code %d: %s", code, out)
	}
	for text := range strings.Lines(out) {
		if strings.HasPrefix(text, node+" ") {
			return text
		}
	}
	l.t.Fatalf("lab status has no %s:\n%s", node, out)
	return ""
}

// shows waits until a node's line of "lab status" has all that is wanted.
func (l *lab) shows(node string, want ...string) {
	l.t.Helper()
	wait.Eventually(l.t, func() error {
		line := l.line(node)
		for _, w := range want {
			if !strings.Contains(line, w) {
				return fmt.Errorf("no %q in: %s", w, line)
			}
		}
		return nil
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
