package run

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Who asks for help on what is no command, or for the completion of what is no
// shell, is told so; who asks for what there is gets it.
func TestHelpIsOfWhatThereIs(t *testing.T) {
	for _, tc := range []struct {
		args string
		want int
		out  string
	}{
		{"help", 0, "the whole"},
		{"help sub", 0, "the part"},
		{"--help", 0, "the whole"},
		{"completion bash", 0, "bash"},
		{"completion", 0, "fish"},
		{"help nothing", 2, `knows nothing of "nothing"; see x --help`},
		{"help sub nothing", 2, "knows nothing of"},
		{"completion nothing", 2, `knows nothing of "nothing"`},
		{"help --nothing", 2, "unknown flag"},
	} {
		var out bytes.Buffer
		root := &cobra.Command{Use: "x", Short: "the whole", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
		root.AddCommand(&cobra.Command{Use: "sub", Short: "the part", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {}})
		root.SetArgs(strings.Fields(tc.args))
		root.SetOut(&out)
		root.SetErr(&out)
		if got := Main(root, nil); got != tc.want || !strings.Contains(out.String(), tc.out) {
			t.Errorf("x %s: exit code %d, want %d; %.200q, want %q", tc.args, got, tc.want, out.String(), tc.out)
		}
	}
}

// A command without others has both as well.
func TestHelpOfOneCommand(t *testing.T) {
	for args, want := range map[string]int{"help": 0, "completion bash": 0, "completion": 0, "help nothing": 2, "completion nothing": 2, "nothing": 2} {
		var out bytes.Buffer
		root := &cobra.Command{Use: "x", Short: "the whole", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
		root.SetArgs(strings.Fields(args))
		root.SetOut(&out)
		root.SetErr(&out)
		if got := Main(root, nil); got != want || out.Len() == 0 {
			t.Errorf("x %s: exit code %d, want %d; %.200q", args, got, want, out.String())
		}
	}
}
