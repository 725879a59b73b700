package run

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// ErrUsage marks a mistake in the flags.
var ErrUsage = errors.New("wrong flags")

// Exit codes of every command; a command may have more.
const (
	exitFailure = 1
	exitUsage   = 2
)

// Main runs a command until it ends or the process is told to stop, and
// returns its exit code: 0, 2 for ErrUsage, what more says of other errors, or
// 1 where it says 0. more may be nil.
func Main(root *cobra.Command, more func(error) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", ErrUsage, err) })
	strict(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(root.ErrOrStderr(), root.Name()+":", err)
	if errors.Is(err, ErrUsage) {
		return exitUsage
	}
	if more != nil {
		if code := more(err); code != 0 {
			return code
		}
	}
	return exitFailure
}

// strict makes help on what is no command, and a completion for what is no
// shell, a mistake in the flags: cobra's own commands help with the whole then,
// and say that all is well.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
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
