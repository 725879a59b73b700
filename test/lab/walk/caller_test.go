package walk

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// whereTyped: files are named from where people are.
func (l *lab) whereTyped() {
	l.t.Helper()
	dir := l.t.TempDir()
	must(l.t, os.WriteFile(filepath.Join(dir, "here.yaml"), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: from-here}}\n"), 0o600))
	for line, want := range map[string]string{"kubectl apply -f here.yaml": "configmap/from-here created", "exec a-1 -- cat here.yaml": "from-here"} {
		cmd := l.command(words(line)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			l.t.Errorf("lab %s in %s: %v: %s", line, dir, err, out)
		}
	}
}

// endsWithItsCaller kills a "lab exec" whose command has a child and takes no
// notice of requests to end: both go.
func (l *lab) endsWithItsCaller(at string) {
	l.t.Helper()
	const first, second = "sleep\x0086398\x00", "sleep\x0086399\x00"
	sleepers := func() (n int) {
		for _, pid := range l.processes() {
			if line, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && (string(line) == first || string(line) == second) {
				n++
			}
		}
		return n
	}
	want := func(n int) {
		l.t.Helper()
		wait.Eventually(l.t, func() error {
			if got := sleepers(); got != n {
				return fmt.Errorf("exec %s: %d commands run, want %d", at, got, n)
			}
			return nil
		})
	}
	cmd := l.command(words("exec "+at+" -- sh -c", `trap "" TERM; sleep 86398 & exec sleep 86399`)...)
	must(l.t, cmd.Start())
	want(2)
	must(l.t, cmd.Process.Kill())
	_ = cmd.Wait()
	want(0)
}

// endsWhenAsked interrupts a "lab exec", as who types ^C: its command is asked to end, and
// its exit code is told.
func (l *lab) endsWhenAsked(at string) {
	l.t.Helper()
	cmd := l.command(words("exec "+at+" -- sh -c", `trap "echo asked; exit 7" TERM; echo here; sleep 86397 & wait`)...)
	out, err := cmd.StdoutPipe()
	must(l.t, err)
	must(l.t, cmd.Start())
	lines := bufio.NewReader(out)
	for _, want := range []string{"here\n", "asked\n"} {
		if line, err := lines.ReadString('\n'); err != nil || line != want {
			l.t.Errorf("exec %s: %q, %v, want %q", at, line, err, want)
		}
		if want == "here\n" {
			must(l.t, cmd.Process.Signal(os.Interrupt))
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		l.t.Errorf("exec %s: exit code %d after ^C, want the command's 7", at, code)
	}
}
