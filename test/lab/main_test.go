package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/run"
)

// What is mistyped is a mistake of who typed it, also behind help and
// completion, and they are told what there is.
func TestMistypedCommands(t *testing.T) {
	for line, want := range map[string]string{
		"help nonsense":       `knows nothing of "nonsense"; see lab --help`,
		"completion nonsense": `knows nothing of "nonsense"`,
		"stats":               `unknown command "stats" for "lab"; did you mean start or status? it has bench`,
		"status a-1":          "unknown command",
		"version":             "say: lab --version; it has bench",
		"kill":                "0 words behind kill; say: lab kill agent|envoy|dns|kubelet|kube-proxy|machine NODE",
		"cut uplink":          "1 words behind cut; say: lab cut uplink UNIT|NODE | peers NODE | node NODE | link UNIT UNIT",
		"up --unit 3":         "unknown flag: --unit; did you mean --units?",
	} {
		if out, code := typed(line); code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("lab %s: exit code %d: %s\nwant %s", line, code, out, want)
		}
	}
	for line, want := range map[string]string{
		"":                   "Available Commands",
		"help":               "Available Commands",
		"help exec":          "exec NODE|[NAMESPACE/]POD",
		"__complete cut ":    "uplink\npeers\nnode\nlink\n",
		"__complete start ":  "agent\nenvoy\ndns\nkubelet\nkube-proxy\nmachine\n",
		"__complete status ": ":",
		"__complete logs ":   "agent\nenvoy\ndns\nkubelet\nkube-proxy\ncontroller\n",
	} {
		if out, code := typed(line); code != 0 || !strings.Contains(out, want) {
			t.Errorf("lab %s: exit code %d: %s\nwant %s", line, code, out, want)
		}
	}
}

// typed is what a command line comes to that no lab has to answer.
func typed(line string) (string, int) {
	var out bytes.Buffer
	root := command()
	root.SetOut(&out)
	root.SetErr(&out)
	args := strings.Split(line, " ")
	if line == "" {
		args = []string{}
	}
	root.SetArgs(args)
	code := run.Main(root, codeOf)
	return out.String(), code
}

// A command that ran inside says itself what was wrong: its exit code is the
// lab's, in silence.
func TestExitCodeOfACommandInside(t *testing.T) {
	var out bytes.Buffer
	root, code := &cobra.Command{Use: "lab"}, 0
	root.AddCommand(&cobra.Command{Use: "exec", RunE: func(*cobra.Command, []string) error { return exitCode(7) }})
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"exec"})
	keepCode(root, &code)
	if failed := run.Main(root, codeOf); failed != 0 || code != 7 || out.Len() > 0 {
		t.Errorf("exit codes %d and %d, %q", failed, code, out.String())
	}
}
