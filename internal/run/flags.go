package run

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/internal/near"
)

// wrongFlag makes a mistake in a flag one of usage, with the flag that may have
// been meant; where it stands behind a mistyped command, that is the mistake.
func wrongFlag(cmd *cobra.Command, err error) error {
	if before := cmd.Flags().Args(); cmd.HasSubCommands() && len(before) > 0 && cmd.Args != nil {
		if mistyped := cmd.Args(cmd, before); mistyped != nil {
			return mistyped
		}
	}
	var none *pflag.NotExistError
	cure := ""
	if errors.As(err, &none) {
		cure = meantFlag(cmd, none.GetSpecifiedName())
	}
	return fmt.Errorf("%w: %w; %s%s --help lists the flags", ErrUsage, err, cure, cmd.CommandPath())
}

// meantFlag is a flag of the program itself, or of the command one that is
// written nearly so.
func meantFlag(cmd *cobra.Command, word string) string {
	root := cmd.Root()
	root.InitDefaultVersionFlag() // cobra's own comes late
	own := root.Flags().Lookup(word)
	if len(word) == 1 {
		own = root.Flags().ShorthandLookup(word)
	}
	if own != nil && cmd != root {
		return fmt.Sprintf("it is one of %s itself: %s --%s; ", root.Name(), root.Name(), own.Name)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if like := near.Word(word, names); like != "" {
		return fmt.Sprintf("did you mean --%s? ", like)
	}
	return ""
}

// Files marks flags whose values are paths, which a shell completes; of all
// others that say nothing of their own it completes none.
func Files(f *pflag.FlagSet, flags ...string) {
	for _, name := range flags {
		_ = cobra.MarkFlagFilename(f, name) // the flag exists
	}
}

// noFiles has a shell complete no files where none are meant, in a command and
// all below it.
func noFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !cmd.DisableFlagParsing {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	visit := func(f *pflag.Flag) {
		_, path := f.Annotations[cobra.BashCompFilenameExt]
		if _, own := cmd.GetFlagCompletionFunc(f.Name); !own && !path {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions) // the flag exists
		}
	}
	cmd.Flags().VisitAll(visit)
	cmd.PersistentFlags().VisitAll(visit)
	for _, sub := range cmd.Commands() {
		noFiles(sub)
	}
}
