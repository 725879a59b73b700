package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/cluster/realnode"
	"github.com/gridmesh/gridmesh/test/conformance/images"
)

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Say what this machine lacks, before anything is built for minutes", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := errors.Join(images.MissingPrograms(), realnode.Missing()); err != nil {
				return fmt.Errorf("this machine cannot run Kubernetes' specs yet (docs/conformance.md has what they need):\n%w", err)
			}
			return nil
		},
	}
}
