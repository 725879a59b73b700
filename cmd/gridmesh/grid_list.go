package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// gridRow is one grid in the output of list.
type gridRow struct {
	Namespace string `json:"namespace"`
	Grid      string `json:"grid"`
	Key       string `json:"key"`
	*unitCount
	Wrong string `json:"wrong,omitempty"`
}

// unitCount is how many units a grid has; a ServiceGrid has one child for all of them,
// and no count.
type unitCount struct {
	Units   int `json:"units"`
	Ready   int `json:"ready"`
	Updated int `json:"updated"`
}

// cells are those of a table.
func (n *unitCount) cells() string {
	if n == nil {
		return "-\t-\t-"
	}
	return fmt.Sprintf("%d\t%d\t%d", n.Units, n.Ready, n.Updated)
}

func gridListCommand() *cobra.Command {
	var in *gridInput
	cmd := &cobra.Command{
		Use: "list", Short: "List grids, how many of their units are well, and what is wrong", Args: cobra.NoArgs,
		Long: `List grids, how many of their units are well, and what is wrong.

Exits with 1 where it prints a problem; beside a cluster, one of what -f gives.
Units that are not as they should be are none: WRONG counts them.`,
		Example: "  gridmesh grid list -A",
		RunE: func(cmd *cobra.Command, _ []string) error {
			plans, problems, err := in.plans(cmd.Context())
			if err != nil {
				return err
			}
			rows := []gridRow{}
			for _, p := range plans {
				standstill, _ := statusOf(in.world, p.Grid).standstill(p)
				rows = append(rows, gridRowOf(p, standstill))
			}
			in.noteUnseen(plans)
			in.noteNobody(plans)
			in.noteIdle(plans)
			in.noteNameless(plans)
			in.noteUnanswered(among(plans))
			problems = append(append(problems, in.unexplained(plans)...), in.stops(plans)...)
			doc := map[string]any{"grids": rows, "problems": problemTexts(problems)}
			return in.judge(in.own(problems), in.print(cmd.OutOrStdout(), doc, func(out io.Writer) error {
				t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
				fmt.Fprintln(t, "NAMESPACE\tGRID\tKEY\tUNITS\tREADY\tUPDATED\tWRONG")
				for _, r := range rows {
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.Namespace, r.Grid, run.Printable(r.Key, ""), r.cells(), dash(r.Wrong))
				}
				return flush(t, out, problems)
			}))
		},
	}
	in = newGridInput(cmd, true)
	in.bindLenient(cmd.Flags())
	return cmd
}

// gridRowOf is a plan as a row, with a word for a rollout that does not go on.
func gridRowOf(p plan.Plan, standstill string) gridRow {
	r := gridRow{Namespace: p.Grid.Namespace, Grid: strings.ToLower(p.Grid.Kind) + "/" + p.Grid.Name, Key: p.UnitKey}
	count, n := map[string]int{}, unitCount{}
	if kind, _ := plan.FindKind(p.Grid.Kind); kind.PerUnit {
		r.unitCount = &n
	}
	for _, s := range p.Steps {
		if word := s.Trouble(); word != "" {
			count[word]++
		}
		if s.Action == plan.Hold || s.Action == plan.Remove {
			continue
		}
		n.Units++
		if s.Ready {
			n.Ready++
		}
		if s.Updated {
			n.Updated++
		}
	}
	var words []string
	for word, units := range count {
		words = append(words, fmt.Sprintf("%s %d", word, units))
	}
	slices.Sort(words)
	if standstill != "" {
		words = slices.Insert(words, 0, standstill)
	}
	r.Wrong = strings.Join(words, ", ")
	return r
}

// unitRow is one unit in the output of units.
type unitRow struct {
	Unit    string `json:"unit"`
	Nodes   int    `json:"nodes"`
	Child   string `json:"child"`
	Ready   bool   `json:"ready"`
	Updated bool   `json:"updated"`
	Wrong   string `json:"wrong,omitempty"`
	Why     string `json:"why,omitempty"`
}

func gridUnitsCommand() *cobra.Command {
	var in *gridInput
	wrong := false
	cmd := &cobra.Command{
		Use: "units [KIND/]NAME", Short: "List the units of a grid and what is wrong in each", Args: aGrid,
		Long: `List the units of a grid and what is wrong in each.

KIND is dg, ssg or sg; sg has to be said.

Exits with 1 where it prints a problem of the grid. Units that are not as they
should be are none.`,
		Example: "  gridmesh grid units till --wrong\n  gridmesh grid units sg/till -n shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, problems, err := in.plans(cmd.Context())
			if err != nil {
				return err
			}
			p, err := choose(in.everywhere, gridOf(args), in.where(), problems)
			if err != nil {
				return err
			}
			rows := []unitRow{}
			status := statusOf(in.world, p.Grid)
			in.noteUnseen([]plan.Plan{p})
			in.noteNobody([]plan.Plan{p})
			in.noteIdle([]plan.Plan{p})
			in.noteNameless([]plan.Plan{p})
			in.noteUnanswered(among([]plan.Plan{p}))
			problems = append(append(problems, in.unexplained([]plan.Plan{p})...), in.stops([]plan.Plan{p})...)
			for _, s := range p.Steps {
				if !wrong || s.Trouble() != "" {
					rows = append(rows, unitRow{s.Unit, s.Nodes, strings.ToLower(s.Kind) + "/" + s.Name, s.Ready, s.Updated, s.Trouble(), cmp.Or(status.why(s), in.unanswered(s))})
				}
			}
			in.notePods(p)
			problems = aboutGrid(p.Grid, problems)
			doc := map[string]any{"units": rows, "problems": problemTexts(problems)}
			return in.judge(in.own(problems), in.print(cmd.OutOrStdout(), doc, func(out io.Writer) error { return unitTable(out, rows, problems) }))
		},
	}
	in = newGridInput(cmd, true)
	cmd.ValidArgsFunction = in.completeGrids()
	in.bindLenient(cmd.Flags())
	cmd.Flags().BoolVar(&wrong, "wrong", false, "only units in which something is wrong")
	return cmd
}

// aboutGrid are the problems of one grid, as it is and as it is written, and of
// files, and of Nodes that are left out, which may hide more of it.
func aboutGrid(grid plan.Ref, problems []topology.Problem) []topology.Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p topology.Problem) bool {
		kind, _, _ := strings.Cut(p.Object, " ")
		object, _, _ := strings.Cut(p.Object, " (")
		return object != grid.String() && !source.LosesNode(p) && !slices.Contains([]string{"file", "standard", "manifests"}, kind)
	})
}

func unitTable(out io.Writer, rows []unitRow, problems []topology.Problem) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "UNIT\tNODES\tCHILD\tREADY\tUPDATED\tWRONG\tWHY")
	word := map[bool]string{true: "yes", false: "no"}
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", dash(r.Unit), r.Nodes, r.Child, word[r.Ready], word[r.Updated], dash(r.Wrong), dash(r.Why))
	}
	return flush(t, out, problems)
}

// aGrid takes the name of one grid, or as kubectl does its kind and its name.
func aGrid(cmd *cobra.Command, args []string) error {
	if err := cobra.RangeArgs(1, 2)(cmd, args); err != nil {
		return err
	}
	if _, ok := plan.FindKind(args[0]); len(args) == 2 && !ok {
		return fmt.Errorf("%q is no kind of grid, and one grid is shown at a time; the kinds are dg, ssg and sg", args[0])
	}
	return given(args)
}

// gridOf joins what aGrid takes to NAME or KIND/NAME.
func gridOf(args []string) string { return strings.Join(args, "/") }

// where is the namespace of the one grid that is asked for; "" for any.
func (in *gridInput) where() string {
	if in.all {
		return ""
	}
	return in.namespace
}

// choose finds one grid by NAME or KIND/NAME. A ServiceGrid often has the name
// of a workload's: it must be asked for by kind. problems may be why there is none.
func choose(plans []plan.Plan, arg, namespace string, problems []topology.Problem) (plan.Plan, error) {
	word, name, given := strings.Cut(arg, "/")
	kind, ok := plan.FindKind(word)
	switch {
	case !given:
		name = arg
	case !ok:
		return plan.Plan{}, fmt.Errorf("%w: %q is no kind of grid; use dg, ssg or sg", run.ErrUsage, word)
	}
	var found []plan.Plan
	for _, p := range plans {
		if p.Grid.Name != name || namespace != "" && p.Grid.Namespace != namespace {
			continue
		}
		if own, _ := plan.FindKind(p.Grid.Kind); given && own.Name == kind.Name || !given && own.PerUnit {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1 && found[0].Grid.Namespace != found[1].Grid.Namespace:
		return plan.Plan{}, fmt.Errorf("%w: %s is in namespaces %s and %s; use -n", run.ErrUsage, arg, found[0].Grid.Namespace, found[1].Grid.Namespace)
	case len(found) > 1:
		return plan.Plan{}, fmt.Errorf("%w: %s is a DeploymentGrid and a StatefulSetGrid; use dg/%s or ssg/%s", run.ErrUsage, arg, name, name)
	case namespace == "":
		return plan.Plan{}, fmt.Errorf("%w: %s in any namespace%s%s", errNoGrid, arg, others(plans, name, namespace), besides(problems))
	default:
		return plan.Plan{}, fmt.Errorf("%w: %s in namespace %s%s%s", errNoGrid, arg, namespace, others(plans, name, namespace), besides(problems))
	}
}

// others names some grids, to choose from in place of one that is not there: those of
// its name in other namespaces, or else those of its namespace.
func others(plans []plan.Plan, name, namespace string) string {
	var same, near []string
	for _, p := range plans {
		kind, ok := plan.FindKind(p.Grid.Kind)
		text := kind.Short + "/" + p.Grid.Name + " in namespace " + p.Grid.Namespace
		switch {
		case !ok:
		case p.Grid.Name == name && namespace != "" && p.Grid.Namespace != namespace:
			same = append(same, text+" (-n "+p.Grid.Namespace+")")
		case namespace == "" || p.Grid.Namespace == namespace:
			near = append(near, text)
		}
	}
	if len(same) > 0 {
		near = same
	}
	if len(near) == 0 {
		return ""
	}
	return "; there are " + plan.Short(near)
}

var errNoGrid = errors.New("there is no such grid")
