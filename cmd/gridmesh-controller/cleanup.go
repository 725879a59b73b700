package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/health/cloud"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
)

// cleanupHealth takes away what node health left in a cluster.
func cleanupHealth(c *config) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cleanup-health",
		Short: "Takes away what node health left in a cluster",
		Long: `Takes away what node health left in a cluster: the list of shielded nodes, the
verdicts and the taint gridmesh.io/unseen-by-unit of Nodes, and the Leases of
units. Pods of lost nodes that were kept are marked, as Kubernetes would have.

Delete the DaemonSet gridmesh-health first, and start gridmesh-controller without
--health-unit-key: what is at work is not taken away. It is for an administrator's
kubeconfig: the controller itself may not delete these.`,
		Example: "  gridmesh-controller cleanup-health --kubeconfig ~/.kube/config",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := kube.Connect(c.kubeconfig, plan.Manager+"/"+obs.Version(), c.rate)
			if err != nil {
				return err
			}
			done, err := cloud.Cleanup(cmd.Context(), client, c.election.Namespace)
			fmt.Fprintln(cmd.OutOrStdout(), done)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: in-cluster credentials)")
	f.StringVarP(&c.election.Namespace, "namespace", "n", c.election.Namespace, "namespace of gridmesh-health: of the units' Leases and the list of shielded nodes")
	run.Files(f, "kubeconfig")
	return cmd
}
