package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// stepRow is one child in the output of plan.
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
	var in *gridInput
	changes := false
	cmd := &cobra.Command{
		Use: "plan", Short: "Show what grids would do in every unit, before they are applied", Args: cobra.NoArgs,
		Long: `Show what grids would do in every unit, before they are applied.

Reads grids, Nodes, and the Deployments, StatefulSets, Services and
ControllerRevisions that exist
from manifests, as "kubectl get -o yaml" prints them, and changes nothing. With
--kubeconfig too, the manifests are put over what the cluster has; --changes
leaves out the children that stay as they are. -o yaml
prints each child as it would be applied, as manifests that kubectl apply takes;
-o json has actions and reasons as well.

Exits with 1 where a manifest cannot be read, or makes a grid with a problem:
also with a field, of its templates too, that does not exist or holds another
type, or one whose rollout is stopped and would stay so. What values mean to an API server (a port out of range, an image that no
registry has) it alone can say: ask it with kubectl apply --dry-run=server.`,
		Example: `  gridmesh grid plan -f new-till.yaml --kubeconfig ~/.kube/config
  kubectl get nodes,deploy,dg,controllerrevisions -A -o yaml >now.yaml && gridmesh grid plan -f now.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(in.files) == 0 {
				return fmt.Errorf("%w: nothing says what is to be planned; give -f FILE, -f DIR or -f -, as: gridmesh grid plan -f new-till.yaml", run.ErrUsage)
			}
			if err := in.guard.Validate(); err != nil {
				return fmt.Errorf("%w: %w", run.ErrUsage, err)
			}
			in.all = in.all || !cmd.Flags().Changed("namespace")
			plans, problems, err := in.plans(cmd.Context())
			if err != nil {
				return err
			}
			for _, p := range plans {
				problems = append(problems, gridStatus{}.stop(p)...) // of what is to come: no word of the controller's
			}
			rows := stepRows(plans, time.Now())
			problems = in.reviewed(problems)
			in.noteUnanswered(func(grid string) bool { return in.given[grid] })
			in.noteNew(rows)
			if changes {
				rows = in.changesOf(rows)
			}
			if in.output == "yaml" {
				in.noteNothing(rows)
				return in.judge(in.own(problems), stepManifests(cmd.OutOrStdout(), rows, problems))
			}
			doc := map[string]any{"steps": rows, "problems": problemTexts(problems)}
			return in.judge(in.own(problems), in.print(cmd.OutOrStdout(), doc, func(out io.Writer) error { return stepTable(out, rows, problems) }))
		},
	}
	in = newGridInput(cmd, true)
	namespace := cmd.Flags().Lookup("namespace")
	namespace.DefValue, namespace.Usage = "", "namespace of the grids (default: all of them)"
	in.bindLenient(cmd.Flags())
	cmd.Flags().BoolVar(&changes, "changes", false, "only children that do not stay as they are")
	grid.BindGuard(cmd.Flags(), &in.guard)
	return cmd
}

// reviewed adds likely mistakes to the problems of plans. Of one that both tell,
// as a field that cannot be read, the review knows why.
func (in *gridInput) reviewed(problems []topology.Problem) []topology.Problem {
	list := in.review()
	told := map[[2]string]bool{}
	for _, p := range list {
		told[[2]string{p.Object, p.Field}] = p.Field != ""
	}
	problems = slices.DeleteFunc(problems, func(p topology.Problem) bool { return told[[2]string{p.Object, p.Field}] })
	return append(problems, list...)
}

// noteNew says of the manifests' grids what is no problem, for it is as Kubernetes has it, and so
// do manifests of SuperEdge's: which of their pods a long outage ends, and which of their units a
// kubelet may join by itself. Of those of which every child stays as it is it was said before.
func (in *gridInput) noteNew(rows []stepRow) {
	stays := map[string]bool{}
	for _, r := range rows {
		others, known := stays[r.Grid]
		stays[r.Grid] = r.Action == string(plan.Keep) && (others || !known)
	}
	concerns := func(grid string) bool { return in.given[grid] && !stays[grid] }
	var grids, keys []string
	for _, ref := range plan.Evictable(in.world) {
		if name := ref.String(); concerns(name) {
			grids = append(grids, name)
		}
	}
	for _, obj := range in.world.Grids {
		spec, _ := obj["spec"].(map[string]any)
		if key, _ := spec["gridUniqKey"].(string); len(validation.IsQualifiedName(key)) == 0 && concerns(plan.RefOf(obj).String()) {
			keys = append(keys, key)
		}
	}
	if len(grids) > 0 {
		in.note("Kubernetes deletes the pods of %s in an outage of their unit of more than five minutes: "+
			"their template does not tolerate node.kubernetes.io/unreachable and node.kubernetes.io/not-ready (docs/grids.md)", plan.Short(grids))
	}
	slices.Sort(keys)
	if note := report.KubeletNote(slices.Compact(keys)); note != "" {
		in.note("%s", note)
	}
}

func stepRows(plans []plan.Plan, now time.Time) []stepRow {
	rows := []stepRow{}
	for _, p := range plans {
		for _, s := range p.Steps {
			rows = append(rows, stepRow{
				Grid: p.Grid.String(), Unit: s.Unit, Nodes: s.Nodes,
				Child: strings.ToLower(s.Kind) + " " + s.Name, Action: string(s.Action), Why: s.Why, Object: unowned(s.Object(now)),
			})
		}
	}
	return rows
}

// changesOf are the rows but for children that stay as they are.
func (in *gridInput) changesOf(rows []stepRow) []stepRow {
	all := len(rows)
	rows = slices.DeleteFunc(rows, func(r stepRow) bool { return r.Action == string(plan.Keep) })
	if len(rows) == 0 && all > 0 {
		in.note("all of the %d children stay as they are", all)
	}
	return rows
}

// noteNothing says that there is no manifest: kubectl takes that for a mistake, an
// empty List as well.
func (in *gridInput) noteNothing(rows []stepRow) {
	if !slices.ContainsFunc(rows, func(r stepRow) bool { return r.Object != nil }) {
		in.note("no child is to be applied, so there is no manifest here; kubectl apply fails then (no objects passed to apply)")
	}
}

// unowned leaves out owners that no API server knows yet: they have no uid, and
// it refuses them.
func unowned(obj map[string]any) map[string]any {
	metadata, _ := obj["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	for _, o := range owners {
		if owner, _ := o.(map[string]any); owner["uid"] == "" {
			delete(metadata, "ownerReferences")
		}
	}
	return obj
}

// stepManifests writes children as a stream of manifests, and the rest as
// comments.
func stepManifests(out io.Writer, rows []stepRow, problems []topology.Problem) error {
	comment := func(text string) { fmt.Fprintln(out, "# "+strings.ReplaceAll(run.Printable(text, "\n"), "\n", "\n# ")) }
	for _, p := range problems {
		comment("problem: " + oneLine(p))
	}
	for _, r := range rows {
		fmt.Fprintln(out, "---")
		text := fmt.Sprintf("%s: %s %s", r.Grid, r.Action, r.Child)
		if r.Why != "" {
			text += ": " + r.Why
		}
		comment(text)
		if r.Object == nil {
			continue
		}
		data, err := yaml.Marshal(r.Object)
		if err != nil {
			return fmt.Errorf("write %s: %w", r.Child, err)
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	return nil
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
	return flush(t, out, problems)
}
