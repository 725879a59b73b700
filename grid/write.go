package grid

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/grid/plan"
)

var (
	// errTaken means that an object of a child's name exists and is nobody's child.
	errTaken = errors.New("an object of this name exists and is not this grid's")
	// errStale means that a child changed after it was planned.
	errStale = errors.New("the child changed meanwhile")
	// errStripped means that the API server took a write and lost a part of it
	// without which the controller does not know its child again.
	errStripped = errors.New("a webhook or a policy takes away what was written; let it pass over the metadata of grids' children")
)

// failureOf is an error, as the plan is to know it. What the API server finds
// invalid, or does not allow, stays so until somebody acts; its own words
// begin with the object, which differs from unit to unit.
func failureOf(err error, now time.Time) plan.Failure {
	text, final := refusal(err)
	if !final {
		return plan.Failure{Text: plan.Cut(err.Error()), Since: now}
	}
	return plan.Failure{Text: "the API server refuses the child: " + plan.Cut(text) + "; correct the template, or what forbids it", Final: true, Since: now}
}

// refusal is what the API server has against an object, without its name, and
// whether it would say so again.
func refusal(err error) (text string, final bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", false
	}
	text = status.Status().Message
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		if _, after, ok := strings.Cut(text, "is invalid: "); ok {
			text = after
		}
		return text, true
	case status.Status().Reason == metav1.StatusReasonUnknown:
		return misfit(text)
	}
	return "", false
}

// misfit reads what server-side apply answers where an object does not fit its
// schema: a field that does not exist, or a value of another type. It is an
// error 500 without a reason, known by its words alone: before a parenthesis
// with the object, after it the fields, each on a line where there are many.
func misfit(message string) (text string, is bool) {
	head, tail, _ := strings.Cut(message, " (")
	switch head {
	case "failed to create typed patch object", "failed to convert new typed object", "failed to convert new object":
	default:
		return "", false
	}
	_, text, is = strings.Cut(tail, ")")
	_, text, _ = strings.Cut(text, ": ")
	var fields []string
	for line := range strings.Lines(strings.TrimPrefix(text, "errors:\n")) {
		fields = append(fields, strings.TrimPrefix(strings.TrimSpace(line), "."))
	}
	return strings.Join(fields, ", "), is
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
		if live, err := c.nameIsFree(ctx, p, child); live != nil || err != nil {
			return live, err
		}
		version = noVersion
	case plan.Remove:
		return nil, c.api.Delete(ctx, s.Kind, child.Namespace, s.Name, s.Version)
	case plan.Hold:
		return c.annotate(ctx, child, ofVersion(version), names.UnitGone, plan.Time(c.now()))
	case plan.Release:
		live, err := c.api.Live(ctx, s.Kind, child.Namespace, s.Name)
		if err != nil || live == nil || ownerUID(live) != p.UID || labelled(live, p) {
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
		now, err := c.annotate(ctx, child, ofVersion(version), names.UnitGone, nil)
		if err != nil || s.Hash() == "" {
			return now, err
		}
		version = meta(now).GetResourceVersion()
	}
	obj := s.Object(c.now())
	if version != "" {
		meta(obj).SetResourceVersion(version)
	}
	return c.apply(ctx, p, s, child, obj)
}

// apply applies a child, and notes on it what is different all the same: it
// will be again. An object that does not bear what it is known by would be
// written again and again.
func (c *Controller) apply(ctx context.Context, p plan.Plan, s plan.Step, child plan.Ref, obj map[string]any) (map[string]any, error) {
	now, err := c.api.Apply(ctx, obj, plan.Manager)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{names.Applied, names.AppliedAt} {
		if meta(now).GetAnnotations()[key] != meta(obj).GetAnnotations()[key] {
			return nil, fmt.Errorf("%w: the annotation %s", errStripped, key)
		}
	}
	if !labelled(now, p) {
		return nil, fmt.Errorf("%w: the label %s", errStripped, names.GridSelector)
	}
	note := s.Settled(now)
	if note == "" || note == meta(now).GetAnnotations()[names.Settled] {
		return now, nil
	}
	// Whatever version it has by now: Kubernetes' controller of it writes its status just then.
	// A note that is of another content than the child's says nothing.
	noted, err := c.annotate(ctx, child, map[string]any{"uid": meta(now).GetUID()}, names.Settled, note)
	if err != nil && c.isNoMore(ctx, child, now) {
		return now, nil // that leads to another plan
	}
	return noted, err
}

// isNoMore reports whether a child is gone, whatever has its name now.
func (c *Controller) isNoMore(ctx context.Context, child plan.Ref, was map[string]any) bool {
	live, err := c.api.Live(ctx, child.Kind, child.Namespace, child.Name)
	return err == nil && (live == nil || meta(live).GetUID() != meta(was).GetUID())
}

// noVersion is one that no object has: what is there already conflicts with it.
const noVersion = "1"

// labelled reports whether the label of a live object names the plan's grid.
func labelled(live map[string]any, p plan.Plan) bool {
	return meta(live).GetLabels()[names.GridSelector] == p.Grid.Name
}

// nameIsFree fails with errTaken where an object has a new child's name. The
// mirror holds children alone, and may lag; somebody else's object must not be
// taken because it has the name, and the grid's own is returned with errStale.
func (c *Controller) nameIsFree(ctx context.Context, p plan.Plan, child plan.Ref) (own map[string]any, err error) {
	live, err := c.api.Live(ctx, child.Kind, child.Namespace, child.Name)
	switch {
	case err != nil || live == nil:
		return nil, err
	case p.UID == "" || ownerUID(live) != p.UID:
		return nil, errTaken
	case labelled(live, p): // made by a write of which no answer came
		return live, errStale
	}
	_, err = c.release(ctx, p, child, live) // a child that lost the label
	return nil, errors.Join(err, errTaken)
}

// ofVersion is the metadata by which a write is of one version of an object; "" is any.
func ofVersion(version string) map[string]any {
	if version == "" {
		return nil
	}
	return map[string]any{"resourceVersion": version}
}

// annotate sets an annotation of a child of such metadata; nil takes it away.
func (c *Controller) annotate(ctx context.Context, child plan.Ref, of map[string]any, key string, value any) (map[string]any, error) {
	metadata := map[string]any{"annotations": map[string]any{key: value}}
	maps.Copy(metadata, of)
	now, err := c.api.Merge(ctx, child.Kind, child.Namespace, child.Name, map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	if is, has := meta(now).GetAnnotations()[key]; has != (value != nil) || has && is != value {
		return nil, fmt.Errorf("%w: the annotation %s", errStripped, key)
	}
	return now, nil
}

// release lets go of a child whose label names the grid no longer: it stays as
// it is, without an owner.
func (c *Controller) release(ctx context.Context, p plan.Plan, child plan.Ref, live map[string]any) (map[string]any, error) {
	owners := slices.DeleteFunc(meta(live).GetOwnerReferences(), func(o metav1.OwnerReference) bool { return string(o.UID) == p.UID })
	annotations := map[string]any{}
	for _, key := range []string{names.Applied, names.AppliedAt, names.AppliedTemplate, names.Settled, names.Replicas, names.Unit, names.UnitKey, names.UnitGone} {
		annotations[key] = nil
	}
	now, err := c.api.Merge(ctx, child.Kind, child.Namespace, child.Name, map[string]any{"metadata": map[string]any{
		"resourceVersion": meta(live).GetResourceVersion(), "ownerReferences": owners, "annotations": annotations,
	}})
	if err == nil && ownerUID(now) == p.UID {
		return nil, fmt.Errorf("%w: that it has no owner", errStripped)
	}
	return now, err
}
