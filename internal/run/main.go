package run

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// ErrUsage marks a mistake in the flags, the arguments or the command.
var ErrUsage = errors.New("wrong flags")

// Exit codes of every command; a command may have more.
const (
	exitFailure = 1
	exitUsage   = 2
)

// again is how long the signal that told a process to stop may come again and
// be the same: timeout(1) and others send it to a process and to its group.
const again = 500 * time.Millisecond

// Main runs a command until it ends or the process is told to stop; told once
// more, after a moment, it dies of that signal, whatever it waits for. It
// returns its exit code: 0, 2 for ErrUsage, what more says of other errors, or
// 1 where it says 0. more may be nil.
func Main(root *cobra.Command, more func(error) int) int {
	KeepToLimit()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(again, stop) })()
	root.SilenceErrors, root.SilenceUsage = true, true
	sayUsage(root)
	root.SetFlagErrorFunc(wrongFlag)
	strict(root)
	noFiles(root)
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

// sayUsage makes wrong and missing arguments, and flags that are missing, of a
// command and of all below it a mistake of usage that says what there is.
func sayUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := errors.Join(check(cmd, args), cmd.ValidateRequiredFlags())
			if err == nil || errors.Is(err, ErrUsage) {
				return err
			}
			return fmt.Errorf("%w: %w; %s", ErrUsage, err, hint(cmd, args))
		}
	}
	for _, sub := range cmd.Commands() {
		sayUsage(sub)
	}
}

// elsewhere begins the annotation of a command that another program has.
const elsewhere = "elsewhere "

// Elsewhere has people who look for a command here told where it is.
func Elsewhere(cmd *cobra.Command, name, say string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[elsewhere+name] = say
}

// hint says what a command has instead of what it was given, or where it has no
// commands how it is written.
func hint(cmd *cobra.Command, args []string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	has := "it takes no commands"
	if len(names) > 0 {
		has = "it has " + strings.Join(names, ", ")
	} else if example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n"); example != "" {
		return fmt.Sprintf("say: %s; for example: %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"), example)
	}
	if len(args) > 0 {
		cmd.SuggestionsMinimumDistance = 2 // Cobra's own default
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			has = "did you mean " + strings.Join(like, " or ") + "? " + has
		}
		if say := cmd.Annotations[elsewhere+args[0]]; say != "" {
			has = "say: " + say + "; " + has
		}
		if root := cmd.Root(); args[0] == "version" && root.Version != "" {
			has = "say: " + root.Name() + " --version; " + has
		}
	}
	return fmt.Sprintf("%s: %s --help", has, cmd.CommandPath())
}
