package grid

import (
	"context"
	"errors"
	"slices"
	"strings"

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
)

// failureOf is an error, as the plan is to know it. What the API server finds
// invalid, or does not allow, stays so until somebody acts; its own words
// begin with the object, which differs from unit to unit.
func failureOf(err error) plan.Failure {
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
		if err := c.nameIsFree(ctx, p, child); err != nil {
			return nil, err
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

// nameIsFree fails with errTaken where an object has a new child's name. The
// mirror holds children alone; somebody else's object must not be taken because
// it has the name.
func (c *Controller) nameIsFree(ctx context.Context, p plan.Plan, child plan.Ref) error {
	live, err := c.api.Live(ctx, child.Kind, child.Namespace, child.Name)
	switch {
	case err != nil || live == nil:
		return err
	case p.UID != "" && ownerUID(live) == p.UID: // a child that lost the label
		_, err = c.release(ctx, p, child, live)
	}
	return errors.Join(err, errTaken)
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
