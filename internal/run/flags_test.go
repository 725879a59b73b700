package run

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tree is a program with flags that are paths, choices and neither.
func tree() *cobra.Command {
	act := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "x", Version: "1", Args: cobra.NoArgs, Run: act}
	root.PersistentFlags().String("config", "", "a path")
	root.PersistentFlags().String("level", "", "a word")
	Files(root.PersistentFlags(), "config")
	sub := &cobra.Command{Use: "sub", Args: cobra.NoArgs, Run: act}
	sub.Flags().String("form", "", "a choice")
	sub.Flags().Int("units", 1, "a number")
	_ = sub.RegisterFlagCompletionFunc("form", cobra.FixedCompletions([]string{"one", "two"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(sub, &cobra.Command{Use: "open", Run: act, ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}})
	return root
}

// A flag that a program has keeps its meaning, though another program's is ignored by that name.
func TestIgnoredFlagsYieldToThoseThatMeanSomething(t *testing.T) {
	f := pflag.NewFlagSet("x", pflag.ContinueOnError)
	level := f.Int("v", 1, "how much to say")
	Klog.Bind(f)
	if err := f.Parse([]string{"--v=3", "--logtostderr"}); err != nil || *level != 3 {
		t.Errorf("v is %d: %v", *level, err)
	}
	var out bytes.Buffer
	Klog.Tell(f, slog.New(slog.NewTextHandler(&out, nil)))
	if strings.Contains(out.String(), "flag=--v ") || !strings.Contains(out.String(), "flag=--logtostderr") {
		t.Errorf("told: %s", out.String())
	}
}

func ran(line string) (string, int) {
	var out bytes.Buffer
	root := tree()
	root.SetArgs(strings.Split(line, " "))
	root.SetOut(&out)
	root.SetErr(&out)
	code := Main(root, nil)
	return out.String(), code
}

// A shell completes files for paths alone.
func TestFilesAreCompletedForPaths(t *testing.T) {
	const files, none = ":0\n", ":4\n"
	for line, want := range map[string]string{
		"--config ": files, "--level ": none, "sub --config ": files, "sub --level ": none,
		"sub --form ": "one\ntwo\n" + none, "sub --units ": none, "sub ": none, "open ": files,
	} {
		if out, code := ran("__complete " + line); code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("x %s: exit code %d: %q, want %q", line, code, out, want)
		}
	}
}

// Who mistypes a flag is told which may have been meant, and where they are.
func TestWrongFlagsAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		"sub --unit 3":  "unknown flag: --unit; did you mean --units? x sub --help lists the flags",
		"sub --version": "it is one of x itself: x --version; x sub --help",
		"sub -v":        "unknown shorthand flag: 'v' in -v; it is one of x itself: x --version; ",
		"sub --units a": "parsing \"a\": invalid syntax; x sub --help lists the flags",
		"--nothing":     "unknown flag: --nothing; x --help lists the flags",
		"subb --unit 3": `unknown command "subb" for "x"; did you mean sub? it has`,
		"subb -q":       `unknown command "subb" for "x"; did you mean sub? it has`,
		"-q subb":       "unknown shorthand flag: 'q' in -q; x --help lists the flags",
		"sub a --unit":  "unknown flag: --unit; did you mean --units? x sub --help lists the flags",
		"version":       `unknown command "version" for "x"; say: x --version; it has`,
	} {
		if out, code := ran(line); code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("x %s: exit code %d: %s, want %q", line, code, out, want)
		}
	}
	if out, code := ran("-v"); code != 0 || !strings.Contains(out, "x version 1") {
		t.Errorf("x -v: exit code %d: %s", code, out)
	}
}
