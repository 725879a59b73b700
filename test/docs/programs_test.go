package docs

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// called runs a program and returns what it said and its exit code.
func called(t *testing.T, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := exec.Command(filepath.Join(edge.Root(), "bin", program), args...)
	cmd.Stdout, cmd.Stderr = &out, &log
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

// commandsOf are the paths of all commands of a program, by its own help.
func commandsOf(t *testing.T, program string, path ...string) (list [][]string) {
	t.Helper()
	list = append(list, path)
	_, out, _ := called(t, program, append(path, "--help")...)
	_, listed, found := strings.Cut(out, "\nAvailable Commands:\n")
	if !found {
		return list
	}
	listed, _, _ = strings.Cut(listed, "\n\n")
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) `).FindAllStringSubmatch(listed, -1) {
		if m[1] != "help" {
			list = append(list, commandsOf(t, program, append(append([]string{}, path...), m[1])...)...)
		}
	}
	return list
}

// Every command of every program of a node or a cluster helps on standard output and ends with 0, and
// refuses a flag that there is not in a line on standard error, with 2.
func TestProgramsAreAlike(t *testing.T) {
	for program, fewest := range map[string]int{"gridmesh": 11, "gridmesh-agent": 4, "gridmesh-controller": 2, "gridmesh-admission": 2} {
		commands := commandsOf(t, program)
		if len(commands) < fewest {
			t.Errorf("%s has only the commands %q", program, commands)
		}
		for _, path := range commands {
			for _, flag := range []string{"-h", "--help"} {
				if code, out, log := called(t, program, append(path, flag)...); code != 0 || !strings.Contains(out, "Usage:\n  "+program) || log != "" {
					t.Errorf("%s %v %s: exit code %d\n%s%s", program, path, flag, code, out, log)
				}
			}
			code, out, log := called(t, program, append(path, "--no-such-flag")...)
			if code != 2 || out != "" || strings.Count(log, "\n") != 1 || !strings.HasPrefix(log, program+": wrong flags: unknown flag: --no-such-flag") {
				t.Errorf("%s %v: an unknown flag: exit code %d\n%s%s", program, path, code, out, log)
			}
		}
		if code, out, log := called(t, program, "--version"); code != 0 || !strings.HasPrefix(out, program+" version ") || log != "" {
			t.Errorf("%s --version: exit code %d: %s%s", program, code, out, log)
		}
		if _, out, _ := called(t, program, "--help"); !strings.Contains(out, "\nExit codes: 0 ") {
			t.Errorf("%s --help tells no exit codes:\n%s", program, out)
		}
		if code, _, log := called(t, program, "no-such-command"); code != 2 || strings.Count(log, "\n") != 1 {
			t.Errorf("%s: an unknown command: exit code %d: %s", program, code, log)
		}
	}
	for arg, want := range map[string]int{"-help": 0, "--help": 0, "-h": 0, "--version": 0, "-version": 0, "--no-such-flag": 2, "no-such-command": 2} {
		if code, out, log := called(t, "gridmesh-dns", arg); code != want {
			t.Errorf("gridmesh-dns %s: exit code %d, want %d:\n%s%s", arg, code, want, out, log)
		}
	}
}

// A kubeconfig that is not there, or is none, is a failure of every program alike, and no
// mistake in its flags, as docs/cli.md has it.
func TestAKubeconfigThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	none, empty := filepath.Join(dir, "none"), filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"gridmesh view", "gridmesh xds", "gridmesh trace --from 10.0.0.1 --to 10.96.0.1:80", "gridmesh dns web", "gridmesh health",
		"gridmesh grid plan -f ../../examples/grids", "gridmesh grid list", "gridmesh grid units till", "gridmesh grid history till", "gridmesh grid rollback till",
		"gridmesh-controller", "gridmesh-controller cleanup-health", "gridmesh-admission", "gridmesh-health --node-name a-1 --unit-key unit",
		"gridmesh-agent --node-name a-1 --state-dir " + dir,
	} {
		args := strings.Fields(line)
		for _, path := range []string{none, empty} {
			code, out, log := called(t, args[0], append(args[1:], "--kubeconfig", path)...)
			if code != 1 || !strings.Contains(log, path) {
				t.Errorf("%s --kubeconfig %s: exit code %d: %s%s", line, path, code, out, log)
			}
		}
	}
}

// Shells read what is to complete a program: bash here; of the others the
// beginning is looked at, for they may not be installed.
func TestShellsComplete(t *testing.T) {
	for _, program := range []string{"gridmesh", "gridmesh-agent", "gridmesh-controller", "gridmesh-admission", "lab"} {
		for shell, begins := range map[string]string{"bash": "# bash completion", "zsh": "#compdef " + program, "fish": "# fish completion for " + program} {
			code, out, log := called(t, program, "completion", shell)
			if code != 0 || !strings.HasPrefix(out, begins) || log != "" {
				t.Errorf("%s for %s: exit code %d: %s", program, shell, code, log)
			}
			if _, err := exec.LookPath(shell); err != nil {
				continue
			}
			read := exec.Command(shell, "-n")
			read.Stdin = strings.NewReader(out)
			if said, err := read.CombinedOutput(); err != nil || len(said) > 0 {
				t.Errorf("%s does not read what %s gives it: %v: %s", shell, program, err, said)
			}
		}
	}
	if _, out, _ := called(t, "gridmesh-agent", "__complete", "status", "--ch"); !strings.HasPrefix(out, "--check") {
		t.Errorf("--check is not completed: %s", out)
	}
}
