package run

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
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
