package grid

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// API is where grids and their children live.
type API interface {
	// Live is an object as it is now, or nil.
	Live(ctx context.Context, kind, namespace, name string) (map[string]any, error)
	// Apply applies an object server-side, by force; Merge changes one by a
	// merge patch. Both return the object as it is then, and fail with a conflict
	// where they name a metadata.resourceVersion and it has another.
	Apply(ctx context.Context, obj map[string]any, manager string) (map[string]any, error)
	Merge(ctx context.Context, kind, namespace, name string, patch map[string]any) (map[string]any, error)
	// TakeOver gives one manager the fields of another.
	TakeOver(ctx context.Context, kind, namespace, name, from, to string) error
	WriteStatus(ctx context.Context, kind, namespace, name, uid string, status any) error
	// Delete deletes an object of a version, "" for any.
	Delete(ctx context.Context, kind, namespace, name, version string) error
}

// Events tells about objects. It must not block.
type Events interface {
	Event(apiVersion, kind, namespace, name, uid string, warning bool, reason, message string)
}

var (
	// errTaken means that an object of a child's name exists and is nobody's child.
	errTaken = errors.New("an object of this name exists and is not this grid's")
	// errStale means that a child changed after it was planned.
	errStale = errors.New("the child changed meanwhile")
)

// job is what one worker does for one grid, and what came of it.
type job struct {
	plan   plan.Plan
	steps  []plan.Step
	status bool // is to be written
	more   bool // steps are left for another job
	news   []plan.Event

	mu      sync.Mutex
	wrote   bool // the status
	failed  int
	halted  bool  // what failed concerns the grid itself
	why     error // of the first failure
	objects []map[string]any
	settled map[plan.Ref]settled
	taken   []plan.Ref
	deleted []plan.Ref
	fates   map[string]plan.Failure  // of the units that were written to
	units   map[plan.Action][]string // done, by action
}

func (j *job) empty() bool {
	p := j.plan
	return len(j.steps) == 0 && !j.status && p.Revision == nil && len(p.Expired) == 0 && len(p.Unused) == 0 && len(j.news) == 0
}

// carryOut does a job. The status comes first, for it may hold what a successor
// must know before the steps; what the steps lead to, a later plan says.
func (c *Controller) carryOut(ctx context.Context, j *job) {
	j.settled, j.units, j.fates = map[plan.Ref]settled{}, map[plan.Action][]string{}, map[string]plan.Failure{}
	p := j.plan
	// own is a write that concerns the grid itself.
	own := func(write func() (map[string]any, error)) bool {
		ok := j.do(write)
		j.halted = j.halted || !ok
		return ok
	}
	if p.Revision != nil {
		own(func() (map[string]any, error) { return c.api.Apply(ctx, p.Revision, plan.Manager) })
	}
	if j.status {
		j.wrote = own(func() (map[string]any, error) { return nil, c.writeStatus(ctx, p) })
	}
	if !p.StatusFirst || j.wrote {
		c.steps(ctx, j)
	}
	for _, name := range p.Expired {
		own(func() (map[string]any, error) {
			return nil, c.api.Delete(ctx, "ControllerRevision", p.Grid.Namespace, name, "")
		})
	}
	if len(p.Unused) > 0 {
		own(func() (map[string]any, error) { return nil, c.prune(ctx, p) })
	}
	if ctx.Err() == nil {
		c.tell(j)
	}
}

// do notes what a write led to.
func (j *job) do(write func() (map[string]any, error)) bool {
	obj, err := write()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		if j.failed++; j.why == nil {
			j.why = err
		}
		return false
	}
	if obj != nil {
		j.objects = append(j.objects, obj)
	}
	return true
}

func (c *Controller) writeStatus(ctx context.Context, p plan.Plan) error {
	var status any = p.Workload
	if p.Workload == nil {
		status = p.Service
	}
	return c.api.WriteStatus(ctx, p.Grid.Kind, p.Grid.Namespace, p.Grid.Name, p.UID, status)
}

// prune drops unused entries of the template pool, unless the grid changed.
func (c *Controller) prune(ctx context.Context, p plan.Plan) error {
	live, err := c.api.Live(ctx, p.Grid.Kind, p.Grid.Namespace, p.Grid.Name)
	if err != nil || live == nil || p.Workload.ObservedGeneration != meta(live).GetGeneration() {
		return err // planned anew when the change arrives
	}
	pool := map[string]any{}
	for _, name := range p.Unused {
		pool[name] = nil
	}
	_, err = c.api.Merge(ctx, p.Grid.Kind, p.Grid.Namespace, p.Grid.Name, map[string]any{
		"metadata": map[string]any{"resourceVersion": meta(live).GetResourceVersion()}, "spec": map[string]any{"templatePool": pool},
	})
	return err
}

func (c *Controller) steps(ctx context.Context, j *job) {
	var wg sync.WaitGroup
	for _, s := range j.steps {
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return
		}
		wg.Go(func() {
			defer func() { <-c.slots }()
			c.step(ctx, j, s)
		})
	}
	wg.Wait()
}

func (c *Controller) step(ctx context.Context, j *job, s plan.Step) {
	grid, child := j.plan.Grid, plan.Ref{Kind: s.Kind, Namespace: j.plan.Grid.Namespace, Name: s.Name}
	c.cfg.Metrics.writes.WithLabelValues(string(s.Action)).Inc()
	c.cfg.Log.Debug("child of a grid", "action", string(s.Action), "grid", grid.String(), "unit", s.Unit, "child", child.String(), "why", s.Why)
	now, failure := c.write(ctx, j.plan, s, child)
	taken, stale := errors.Is(failure, errTaken), errors.Is(failure, errStale)
	ok := j.do(func() (map[string]any, error) {
		if taken || stale {
			return now, nil
		}
		return now, failure
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case taken:
		j.taken = append(j.taken, child)
	case stale:
		j.more = true
	case ok:
		j.fates[s.Unit] = plan.Failure{}
		j.units[s.Action] = append(j.units[s.Action], s.Unit)
		if s.Hash() != "" {
			j.settled[child] = settled{s.Hash(), plan.Fingerprint(now)}
		}
		if s.Action == plan.Remove {
			j.deleted = append(j.deleted, child)
		}
	case ctx.Err() == nil:
		c.cfg.Metrics.failures.Inc()
		j.fates[s.Unit] = fate(failure)
	}
}

// fate is a failure, as the plan is to know it. What the API server finds
// invalid, or does not allow, stays so until somebody acts; its own words
// begin with the object, which differs from unit to unit.
func fate(err error) plan.Failure {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
		return plan.Failure{Text: err.Error()}
	}
	text := status.Status().Message
	if _, after, ok := strings.Cut(text, "is invalid: "); ok {
		text = after
	}
	return plan.Failure{Text: "the API server refuses the child: " + text + "; correct the template, or what forbids it", Final: true}
}

// write carries out one step and returns the child as it is then. What a hand
// did after the plan is not undone by it: the child comes back with errStale.
func (c *Controller) write(ctx context.Context, p plan.Plan, s plan.Step, child plan.Ref) (map[string]any, error) {
	now, err := c.attempt(ctx, p, s, child)
	if !apierrors.IsConflict(err) || s.Version == "" {
		return now, err
	}
	live, failure := c.api.Live(ctx, s.Kind, child.Namespace, s.Name)
	if failure != nil || live == nil || meta(live).GetResourceVersion() == s.Version {
		return nil, errors.Join(err, failure)
	}
	return live, errStale
}

func (c *Controller) attempt(ctx context.Context, p plan.Plan, s plan.Step, child plan.Ref) (map[string]any, error) {
	version := s.Version
	switch s.Action {
	case plan.Create:
		// The mirror holds children alone; somebody else's object must not be
		// taken because it has the name.
		live, err := c.api.Live(ctx, s.Kind, child.Namespace, s.Name)
		switch {
		case err != nil:
			return nil, err
		case live != nil && ownerUID(live) == p.UID && p.UID != "":
			_, err = c.release(ctx, p, child, live)
			return nil, errors.Join(err, errTaken)
		case live != nil:
			return nil, errTaken
		}
	case plan.Remove:
		return nil, c.api.Delete(ctx, s.Kind, child.Namespace, s.Name, s.Version)
	case plan.Hold:
		return c.annotate(ctx, child, version, plan.Time(c.now()))
	case plan.Release:
		live, err := c.api.Live(ctx, s.Kind, child.Namespace, s.Name)
		if err != nil || live == nil || ownerUID(live) != p.UID {
			return live, err
		}
		return c.release(ctx, p, child, live)
	case plan.Adopt:
		if err := c.api.TakeOver(ctx, s.Kind, child.Namespace, s.Name, plan.SuperEdgeManager, plan.Manager); err != nil {
			return nil, err
		}
		version = "" // TakeOver raised it
	}
	if s.Unmark {
		now, err := c.annotate(ctx, child, version, nil)
		if err != nil {
			return nil, err
		}
		version = meta(now).GetResourceVersion()
	}
	obj := s.Object(c.now())
	if version != "" {
		meta(obj).SetResourceVersion(version)
	}
	return c.api.Apply(ctx, obj, plan.Manager)
}

// annotate writes since when a child's unit is gone; nil takes that away.
func (c *Controller) annotate(ctx context.Context, child plan.Ref, version string, value any) (map[string]any, error) {
	metadata := map[string]any{"annotations": map[string]any{names.UnitGone: value}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	return c.api.Merge(ctx, child.Kind, child.Namespace, child.Name, map[string]any{"metadata": metadata})
}

// release lets go of a child whose label names the grid no longer: it stays as
// it is, without an owner.
func (c *Controller) release(ctx context.Context, p plan.Plan, child plan.Ref, live map[string]any) (map[string]any, error) {
	owners := slices.DeleteFunc(meta(live).GetOwnerReferences(), func(o metav1.OwnerReference) bool { return string(o.UID) == p.UID })
	annotations := map[string]any{}
	for _, key := range []string{names.Applied, names.AppliedAt, names.Replicas, names.Unit, names.UnitKey, names.UnitGone} {
		annotations[key] = nil
	}
	return c.api.Merge(ctx, child.Kind, child.Namespace, child.Name, map[string]any{"metadata": map[string]any{
		"resourceVersion": meta(live).GetResourceVersion(), "ownerReferences": owners, "annotations": annotations,
	}})
}

// done is how actions are told.
var done = []struct {
	action  plan.Action
	warning bool
	reason  string
	text    string
}{
	{plan.Create, false, "Created", "made the child of %s"},
	{plan.Update, false, "Updated", "brought the child of %s in line"},
	{plan.Adopt, false, "Adopted", "took over the child of %s"},
	{plan.Release, true, "Released", "let go of the child of %s: its label names the grid no longer"},
	{plan.Hold, true, "UnitGone", "%s has no node any more; its workload is kept for now"},
	{plan.Remove, true, "Removed", "removed the workload of %s, which has had no node for long"},
}

// tell writes Events and the log, one line for many units.
func (c *Controller) tell(j *job) {
	grid := j.plan.Grid
	event := func(warning bool, reason, message string) {
		c.cfg.Events.Event(apiv1.Group+"/"+apiv1.Version, grid.Kind, grid.Namespace, grid.Name, j.plan.UID, warning, reason, message)
	}
	for _, d := range done {
		if units := j.units[d.action]; len(units) > 0 {
			slices.Sort(units)
			of := "unit " + plan.Short(units)
			if units[0] == "" {
				of = "all units" // a Service
			}
			c.cfg.Log.Info("children of a grid", "grid", grid.String(), "action", string(d.action), "units", len(units), "which", plan.Short(units))
			event(d.warning, d.reason, fmt.Sprintf(d.text, of))
		}
	}
	if j.wrote {
		j.news = append(j.news, j.plan.Events...)
	}
	for _, n := range j.news {
		event(n.Warning, n.Reason, n.Message)
	}
	if j.failed > 0 {
		c.cfg.Log.Error("could not bring a grid in line; trying again", "grid", grid.String(), "writes", j.failed, "err", j.why)
		event(true, "Failed", fmt.Sprintf("%d writes failed, and are tried again: %v", j.failed, j.why))
	}
}

// meta reads an object's metadata.
func meta(obj map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: obj}
}

func ownerUID(obj map[string]any) string {
	if owner := metav1.GetControllerOf(meta(obj)); owner != nil {
		return string(owner.UID)
	}
	return ""
}
