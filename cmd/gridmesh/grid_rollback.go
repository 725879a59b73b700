package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/objects"
)

// history is a grid with its revisions, the newest first, and who bears them.
type history struct {
	grid      map[string]any
	plan      plan.Plan
	revisions []plan.Revision
	bearers   plan.Bearers
}

func (in *gridInput) history(ctx context.Context, arg string) (*history, error) {
	objects, problems, err := in.objects(ctx)
	if err != nil {
		return nil, err
	}
	in.world = worldOf(objects)
	p, err := choose(plan.All(in.world, in.guard, time.Now()), arg, in.where(), problems)
	if err != nil {
		return nil, err
	}
	in.noteUnseen([]plan.Plan{p})
	h := &history{plan: p, revisions: plan.Revisions(p.UID, in.world.Revisions), bearers: plan.BearersOf(in.world, p.Grid)}
	for _, obj := range in.world.Grids {
		if plan.RefOf(obj) == p.Grid {
			h.grid = obj
		}
	}
	return h, nil
}

type revisionRow struct {
	Revision int64    `json:"revision"`
	Name     string   `json:"name"`
	Created  string   `json:"created,omitempty"`
	Current  bool     `json:"current"`
	Units    []string `json:"units"` // whose child bears what it has for them
}

func gridHistoryCommand() *cobra.Command {
	var in *gridInput
	cmd := &cobra.Command{
		Use: "history [KIND/]NAME", Short: "List the revisions of a grid's templates, and the units that bear each", Args: aGrid,
		Long: `List the revisions of a grid's templates, and the units that bear each.

UNITS are those whose child was made of what the revision has for them, which
says nothing of whether their pods are ready: gridmesh grid units does. Where
revisions have the same for a unit it is with each of them.`,
		Example: "  gridmesh grid history till",
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := in.history(cmd.Context(), gridOf(args))
			if err != nil {
				return err
			}
			in.noteBearers(h)
			rows := []revisionRow{}
			for _, r := range h.revisions {
				rows = append(rows, revisionRow{r.Number, r.Name, r.Created, r.Name == h.current(), append([]string{}, h.bearers.Of[r.Name]...)})
			}
			return in.print(cmd.OutOrStdout(), rows, func(out io.Writer) error { return h.table(out, rows) })
		},
	}
	in = newGridInput(cmd, true)
	cmd.ValidArgsFunction = in.completeGrids()
	return cmd
}

// noteBearers says what the manifests lack, and of which units nobody knows what they bear.
func (in *gridInput) noteBearers(h *history) {
	switch kind, _ := plan.FindKind(h.plan.Grid.Kind); {
	case !h.revises():
		in.note("%s %s", h.plan.Grid, noRevisions)
	case len(h.revisions) == 0 && len(in.files) > 0:
		in.note("no ControllerRevision of %s is here; add those of the cluster (kubectl get controllerrevisions -A -o yaml), or ask it (--kubeconfig)", h.plan.Grid)
	case len(h.revisions) == 0:
	case len(h.bearers.Unknown) > 0:
		in.note("unit %s bears none of these revisions, or does not say which: its child was applied before that was noted", plan.Short(h.bearers.Unknown))
	case h.bearers.Known == 0 && len(in.files) > 0:
		in.note("no child of %s is here, so nobody knows which units bear a revision; add them (kubectl get %s -o yaml), or ask the cluster (--kubeconfig)", h.plan.Grid, strings.ToLower(kind.Child))
	}
}

func (h *history) table(out io.Writer, rows []revisionRow) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "REVISION\tNAME\tCREATED\tCURRENT\tUNITS")
	for _, r := range rows {
		current, units := "-", "-"
		if r.Current {
			current = "yes"
		}
		if h.bearers.Known > 0 {
			units = fmt.Sprint(len(r.Units))
		}
		if len(r.Units) > 0 {
			units += ": " + plan.Short(r.Units)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", r.Revision, r.Name, dash(r.Created), current, dash(units))
	}
	return t.Flush()
}

// bear says how many units bear a revision now; "" where nobody knows.
func (h *history) bear(r plan.Revision) string {
	if h.bearers.Known == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d units bear now", len(h.bearers.Of[r.Name]), h.bearers.Known)
}

// instead says that there are more revisions to go back to than the target, and of them
// which more units bear than that, of equals the newest: of two bad changes the one before
// the current is bad, too. "" where there are none.
func (h *history) instead(target plan.Revision) string {
	others := slices.DeleteFunc(slices.Clone(h.revisions), func(r plan.Revision) bool { return r.Name == h.current() || r.Name == target.Name })
	if len(others) == 0 {
		return ""
	}
	borne := func(r plan.Revision) int { return len(h.bearers.Of[r.Name]) }
	text := "gridmesh grid history has others, for --to-revision"
	most := slices.MaxFunc(others, func(a, b plan.Revision) int { return cmp.Or(borne(a)-borne(b), cmp.Compare(a.Number, b.Number)) })
	if borne(most) > borne(target) {
		text += fmt.Sprintf(": revision %d is what %s", most.Number, h.bear(most))
	}
	return text
}

func (h *history) current() string {
	if h.plan.Workload == nil {
		return ""
	}
	return h.plan.Workload.Revision
}

// from says at which revision the grid is, where that is written: two rollbacks without
// a number go to and fro.
func (h *history) from() string {
	for _, r := range h.revisions {
		if r.Name == h.current() {
			return fmt.Sprintf("from revision %d ", r.Number)
		}
	}
	return ""
}

// paused reports whether the grid's units get no change.
func (h *history) paused() bool {
	paused, _, _ := unstructured.NestedBool(h.grid, "spec", "rollout", "paused")
	return paused
}

// noRevisions is said of a ServiceGrid.
const noRevisions = "has no revisions, and never has: it has no templates"

// revises reports whether the grid is of a kind that has revisions.
func (h *history) revises() bool {
	kind, ok := plan.FindKind(h.plan.Grid.Kind)
	return !ok || kind.PerUnit
}

var errNoRevision = errors.New("there is no such revision")

// target is the revision to go back to; 0 is the one before the current.
func (h *history) target(number int64) (plan.Revision, error) {
	others := slices.DeleteFunc(slices.Clone(h.revisions), func(r plan.Revision) bool { return r.Name == h.current() })
	if number == 0 && len(others) > 0 {
		return others[0], nil
	}
	for _, r := range h.revisions {
		if number != 0 && r.Number == number {
			return r, nil
		}
	}
	if !h.revises() {
		return plan.Revision{}, fmt.Errorf("%w: %s %s", errNoRevision, h.plan.Grid, noRevisions)
	}
	if number == 0 {
		return plan.Revision{}, fmt.Errorf("%w: %s has no revision before the current one", errNoRevision, h.plan.Grid)
	}
	return plan.Revision{}, fmt.Errorf("%w: %s has no revision %d; see gridmesh grid history", errNoRevision, h.plan.Grid, number)
}

func gridRollbackCommand() *cobra.Command {
	var in *gridInput
	var to int64
	dry := false
	cmd := &cobra.Command{
		Use: "rollback [KIND/]NAME", Short: "Bring a grid's templates back to an earlier revision", Args: aGrid,
		Long: `Bring a grid's templates back to an earlier revision.

Writes template, templatePool, templates and defaultTemplateName of the revision
into the grid. Units follow as with every change: at once, or in waves where the
grid has spec.rollout; units that the change to be undone has not reached are
not touched. A grid that is paused stays so. Without --to-revision it is the one
before the current, of two bad changes the other: it prints how many units bear
it. A second rollback undoes the first.`,
		Example: "  gridmesh grid rollback till\n  gridmesh grid rollback dg/till --to-revision 3 --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("to-revision") && to < 1 {
				return fmt.Errorf("%w: --to-revision %d: revisions are counted from 1; leave the flag out for the one before the current, and gridmesh grid history lists them", run.ErrUsage, to)
			}
			h, err := in.history(cmd.Context(), gridOf(args))
			if err != nil {
				return err
			}
			r, err := h.target(to)
			if err != nil {
				return err
			}
			if r.Name == h.current() {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is at revision %d already\n", h.plan.Grid, r.Number)
				return nil
			}
			if err := in.rollBack(cmd.Context(), gridOf(args), h, r, dry); err != nil {
				return err
			}
			suffix := ""
			if dry {
				suffix = " (dry run)"
			}
			h.tell(in, r, suffix)
			if others := h.instead(r); to == 0 && others != "" {
				in.note("%s", others)
			}
			return nil
		},
	}
	in = newGridInput(cmd, false)
	cmd.ValidArgsFunction = in.completeGrids()
	cmd.Flags().Int64Var(&to, "to-revision", 0, "revision to go back to, from 1 on (default: the one before the current)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only ask the API server whether it would take the change")
	return cmd
}

// tell says what a rollback to a revision did, or would do.
func (h *history) tell(in *gridInput, r plan.Revision, suffix string) {
	if now := h.bear(r); now != "" {
		suffix += ", which " + now
	}
	fmt.Fprintf(in.cmd.OutOrStdout(), "%s goes back %sto revision %d%s\n", h.plan.Grid, h.from(), r.Number, suffix)
	if h.paused() {
		in.note("%s is paused: nothing goes to a unit before spec.rollout.paused is false", h.plan.Grid)
	}
}

// beside is how often a rollback is tried while the controller writes the grid's status.
const beside = 5

var errChangedMeanwhile = errors.New("the grid was changed while it was to be rolled back, and stays as it is; see gridmesh grid history, and ask again")

// rollBack writes what a revision had into the grid as it was read. A status written
// meanwhile is no reason not to.
func (in *gridInput) rollBack(ctx context.Context, arg string, h *history, r plan.Revision, dry bool) error {
	err := in.patch(ctx, h.plan.Grid, h.grid, r, dry)
	for range beside {
		if !apierrors.IsConflict(err) {
			break
		}
		now, asked := in.history(ctx, arg)
		if asked != nil {
			return asked
		}
		if generationOf(now.grid) != generationOf(h.grid) {
			return fmt.Errorf("%w: %s", errChangedMeanwhile, h.plan.Grid)
		}
		err = in.patch(ctx, now.plan.Grid, now.grid, r, dry)
	}
	return err
}

// generationOf changes with a grid's spec, and where another grid has its name.
func generationOf(grid map[string]any) string {
	generation, _, _ := unstructured.NestedInt64(grid, "metadata", "generation")
	uid, _, _ := unstructured.NestedString(grid, "metadata", "uid")
	return fmt.Sprint(uid, "/", generation)
}

func (in *gridInput) patch(ctx context.Context, name plan.Ref, as map[string]any, r plan.Revision, dry bool) error {
	patch, err := plan.RollbackPatch(as, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, in.timeout)
	defer cancel()
	client, err := in.connect()
	if err != nil {
		return err
	}
	var how []string
	if dry {
		how = []string{"All"}
	}
	for _, kind := range grid.Kinds() {
		if kind.Kind == name.Kind {
			err := objects.Merge(ctx, client, kind, name.Namespace, name.Name, patch, "gridmesh", how...)
			return in.late(client.Blame(kube.Slow(err)))
		}
	}
	return errNoGrid
}
