package run

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// strict makes help on what is no command, and a completion for what is no
// shell, a mistake in the flags: cobra's own commands help with the whole then,
// and say that all is well.
func strict(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion") // Cobra has both for a command without others only where it is asked for them
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Run, cmd.RunE = nil, help
		case "completion":
			if cmd.RunE == nil && cmd.Run == nil {
				cmd.RunE = func(cmd *cobra.Command, args []string) error { return cmd.Help() }
			}
			cmd.Args = noTopic
		}
	}
}

// help shows what is known of a command.
func help(cmd *cobra.Command, args []string) error {
	topic, rest, err := cmd.Root().Find(args)
	if err != nil || topic == nil || len(rest) > 0 {
		return noTopic(cmd, args)
	}
	topic.InitDefaultHelpFlag()
	topic.InitDefaultVersionFlag()
	return topic.Help()
}

func noTopic(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s knows nothing of %q; see %s --help", ErrUsage, cmd.CommandPath(), strings.Join(args, " "), cmd.Root().Name())
}
