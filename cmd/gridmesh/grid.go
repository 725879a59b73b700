package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

func gridCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "grid", Short: "Show what grids make in every unit"}
	cmd.AddCommand(gridPlanCommand())
	return cmd
}

// stepRow is one child in the output.
type stepRow struct {
	Grid   string         `json:"grid"`
	Unit   string         `json:"unit,omitempty"`
	Nodes  int            `json:"nodes"`
	Child  string         `json:"child"`
	Action string         `json:"action"`
	Why    string         `json:"why,omitempty"`
	Object map[string]any `json:"object,omitempty"`
}

func gridPlanCommand() *cobra.Command {
	in := &input{}
	guard := plan.DefaultGuard()
	cmd := &cobra.Command{
		Use: "plan", Short: "Show what grids would do in every unit, before they are applied", Args: cobra.NoArgs,
		Long: `Show what grids would do in every unit, before they are applied.

Reads grids, Nodes, and the Deployments, StatefulSets and Services that exist
from manifests, as "kubectl get -o yaml" prints them, and changes nothing.
-o yaml prints each child as it would be applied.`,
		Example: "  kubectl get nodes,deploy,dg -A -o yaml >now.yaml && gridmesh grid plan -f now.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.dir == "" {
				return fmt.Errorf("%w: give -f FILE or -f DIR", run.ErrUsage)
			}
			objects, problems, err := source.ReadObjects(in.dir)
			if err != nil {
				return err
			}
			plans := plan.All(worldOf(objects), guard, time.Now())
			rows := []stepRow{}
			for _, p := range plans {
				problems = append(problems, p.Problems...)
				for _, s := range p.Steps {
					rows = append(rows, stepRow{
						Grid: strings.ToLower(p.Kind) + " " + p.Key.String(), Unit: s.Unit, Nodes: s.Nodes,
						Child: strings.ToLower(s.Kind) + " " + s.Name, Action: string(s.Action), Why: s.Why, Object: s.Object,
					})
				}
			}
			doc := map[string]any{"steps": rows, "problems": problemTexts(problems)}
			return in.print(cmd.OutOrStdout(), doc, func(out io.Writer) error { return stepTable(out, rows, problems) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&in.dir, "filename", "f", "", "directory or file of manifests")
	f.StringVarP(&in.output, "output", "o", "table", "table, json or yaml")
	f.DurationVar(&guard.Grace, "removal-grace", guard.Grace, "how long a unit without nodes keeps its workloads")
	f.Float64Var(&guard.Share, "removal-share", guard.Share, "most of a grid's units that are removed at once, 0 to 1; one is always allowed")
	return cmd
}

func worldOf(objects []map[string]any) plan.World {
	var w plan.World
	for _, obj := range objects {
		version, _ := obj["apiVersion"].(string)
		kind, _ := obj["kind"].(string)
		switch version + "/" + kind {
		case "superedge.io/v1/DeploymentGrid", "superedge.io/v1/StatefulSetGrid", "superedge.io/v1/ServiceGrid":
			w.Grids = append(w.Grids, obj)
		case "v1/Node":
			w.Nodes = append(w.Nodes, obj)
		case "apps/v1/Deployment", "apps/v1/StatefulSet", "v1/Service":
			w.Children = append(w.Children, obj)
		}
	}
	return w
}

func stepTable(out io.Writer, rows []stepRow, problems []topology.Problem) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "GRID\tUNIT\tNODES\tCHILD\tACTION\tWHY")
	for _, r := range rows {
		nodes := fmt.Sprint(r.Nodes)
		if r.Unit == "" {
			nodes = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Grid, dash(r.Unit), nodes, r.Child, r.Action, dash(r.Why))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(out, "problem:", p)
	}
	return nil
}
