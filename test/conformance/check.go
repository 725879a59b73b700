package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/cluster/realnode"
	"github.com/gridmesh/gridmesh/test/conformance/images"
)

func checkCommand() *cobra.Command {
	var policies string
	cmd := &cobra.Command{
		Use: "check", Short: "Say what this machine lacks, before anything is built for minutes", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			with := beside(policies)
			if err := with.validate(); err != nil {
				return err
			}
			if err := errors.Join(with.missing(), images.MissingPrograms(), realnode.Missing()); err != nil {
				return fmt.Errorf("this machine cannot run Kubernetes' specs yet (docs/conformance.md has what they need):\n%w", err)
			}
			return nil
		},
	}
	policiesFlag(cmd, &policies)
	return cmd
}

// policiesFlag says which engine enforces NetworkPolicies.
func policiesFlag(cmd *cobra.Command, policies *string) {
	cmd.Flags().StringVar(policies, "policies", "", "the engine that enforces NetworkPolicies, beside which specs of them are run: "+kubeRouter)
}
