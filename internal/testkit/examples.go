package testkit

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Examples are the lines of a program's help that show how it is called, as
// words, without what other programs do in them. It is an error that a command
// which does something has none of its own, and that a line is not understood:
// of an unknown command, with an unknown flag, or with arguments too many or few.
func Examples(t *testing.T, program func() *cobra.Command) (lines [][]string) {
	t.Helper()
	name := program().Name()
	for _, cmd := range doers(program()) {
		own := 0
		for line := range strings.Lines(cmd.Example) {
			for _, words := range calls(line) {
				if words[0] != name {
					continue
				}
				lines = append(lines, words)
				path, err := understood(program(), words[1:])
				if err != nil {
					t.Errorf("%s: the example %q: %v", cmd.CommandPath(), strings.TrimSpace(line), err)
				}
				if path == cmd.CommandPath() {
					own++
				}
			}
		}
		if own == 0 {
			t.Errorf("%s has no example of its own", cmd.CommandPath())
		}
	}
	return lines
}

// doers are the commands that people may run, but for those that only have
// others below them, and cobra's own.
func doers(cmd *cobra.Command) (list []*cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
		return nil
	}
	if cmd.Runnable() && (cmd.Example != "" || !cmd.HasSubCommands()) {
		list = append(list, cmd)
	}
	for _, sub := range cmd.Commands() {
		list = append(list, doers(sub)...)
	}
	return list
}

// calls are the programs that a line of a shell calls, each as words.
func calls(line string) (list [][]string) {
	line = strings.NewReplacer("&&", "|", ";", "|", " & ", "|").Replace(strings.TrimSpace(line))
	for call := range strings.SplitSeq(line, "|") {
		words := slices.DeleteFunc(strings.Fields(call), func(w string) bool { return strings.HasPrefix(w, ">") })
		if len(words) > 0 {
			list = append(list, words)
		}
	}
	return list
}

// understood finds the command, and parses its flags and arguments.
func understood(root *cobra.Command, words []string) (path string, err error) {
	cmd, rest, err := root.Find(words)
	if err != nil {
		return "", err
	}
	args := rest
	if !cmd.DisableFlagParsing {
		if err := cmd.ParseFlags(rest); err != nil {
			return "", err
		}
		args = cmd.Flags().Args()
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return "", err
	}
	return cmd.CommandPath(), cmd.ValidateArgs(args)
}
