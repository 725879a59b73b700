package gridtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// Verb is a call of the API.
type Verb string

// The verbs.
const (
	Live        Verb = "live"
	Apply       Verb = "apply"
	Merge       Verb = "merge"
	TakeOver    Verb = "take over"
	WriteStatus Verb = "write status"
	Delete      Verb = "delete"
)

// Call is one call of the API.
type Call struct {
	Verb Verb
	Ref  plan.Ref
	At   time.Time
	// Changed: the object is another since.
	Changed bool
}

// Config is how a Cluster behaves; the zero value is one in which nothing goes
// wrong.
type Config struct {
	// Lag is how far the mirror is behind.
	Lag time.Duration
	// AutoReady gives every workload the status of one that is rolled out.
	AutoReady bool
	// Before is called before a call of the API, without a lock: it may fail it,
	// wait, or change objects.
	Before func(ctx context.Context, verb Verb, ref plan.Ref) error
	// Lose is asked after a write was carried out: where it says so, the answer is
	// lost on its way.
	Lose func(verb Verb, ref plan.Ref) bool
	// Mutate changes what is about to be stored, as an admission webhook does.
	Mutate func(obj plan.Object)
	// Passes: the garbage collector passes over what deleted objects owned, as
	// Kubernetes' does where the owner came again under its name while a watch of
	// the collector was broken.
	Passes bool
}

// Cluster is an API server in memory, and a mirror of it: it implements
// grid.API and grid.Mirror.
type Cluster struct {
	cfg Config

	mu       sync.Mutex
	objects  map[plan.Ref]*unstructured.Unstructured // never changed in place
	version  int64
	uids     int
	calls    []Call
	watch    *watch
	managers map[schema.GroupVersionKind]*managedfields.FieldManager
}

// New returns an empty cluster.
func New(cfg Config) *Cluster {
	return &Cluster{
		cfg: cfg, objects: map[plan.Ref]*unstructured.Unstructured{}, watch: newWatch(cfg.Lag),
		managers: map[schema.GroupVersionKind]*managedfields.FieldManager{},
	}
}

// begin is what every call of the API begins with; it returns with the lock.
func (c *Cluster) begin(ctx context.Context, verb Verb, ref plan.Ref) error {
	if c.cfg.Before != nil {
		if err := c.cfg.Before(ctx, verb, ref); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", verb, ref, err)
	}
	c.mu.Lock()
	c.calls = append(c.calls, Call{Verb: verb, Ref: ref, At: time.Now()})
	return nil
}

// Live implements grid.API.
func (c *Cluster) Live(ctx context.Context, kind, namespace, name string) (plan.Object, error) {
	ref := plan.Ref{Kind: kind, Namespace: namespace, Name: name}
	if err := c.begin(ctx, Live, ref); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if u := c.objects[ref]; u != nil {
		return pruned(u), nil
	}
	return nil, nil
}

// Apply implements grid.API.
func (c *Cluster) Apply(ctx context.Context, obj plan.Object, manager string) (plan.Object, error) {
	applied := &unstructured.Unstructured{Object: roundTrip(obj)}
	ref := plan.RefOf(applied.Object)
	if err := c.begin(ctx, Apply, ref); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	live, version := c.objects[ref], applied.GetResourceVersion()
	if live != nil && version != "" && live.GetResourceVersion() != version {
		return nil, conflict(ref)
	}
	gvk := applied.GroupVersionKind()
	base := &unstructured.Unstructured{}
	base.SetGroupVersionKind(gvk)
	if live != nil {
		base = live.DeepCopy()
	}
	next, err := c.manager(gvk).Apply(base, applied, manager, true)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", ref, err)
	}
	return c.answer(Apply, ref, c.store(ref, next.(*unstructured.Unstructured)))
}

// Merge implements grid.API.
func (c *Cluster) Merge(ctx context.Context, kind, namespace, name string, patch plan.Object) (plan.Object, error) {
	ref := plan.Ref{Kind: kind, Namespace: namespace, Name: name}
	if err := c.begin(ctx, Merge, ref); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	live, patch := c.objects[ref], roundTrip(patch)
	version, _, _ := unstructured.NestedString(patch, "metadata", "resourceVersion")
	uid, named, _ := unstructured.NestedString(patch, "metadata", "uid")
	switch {
	case live == nil:
		return nil, apierrors.NewNotFound(resource(ref), name)
	case named && uid != string(live.GetUID()):
		return nil, apierrors.NewInvalid(live.GroupVersionKind().GroupKind(), name, field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")})
	case version != "" && version != live.GetResourceVersion():
		return nil, conflict(ref)
	}
	merged := &unstructured.Unstructured{Object: mergePatch(live.DeepCopy().Object, patch)}
	next, err := c.manager(live.GroupVersionKind()).Update(live.DeepCopy(), merged, plan.Manager)
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", ref, err)
	}
	return c.answer(Merge, ref, c.store(ref, next.(*unstructured.Unstructured)))
}

// TakeOver implements grid.API.
func (c *Cluster) TakeOver(ctx context.Context, kind, namespace, name, from, to string) error {
	ref := plan.Ref{Kind: kind, Namespace: namespace, Name: name}
	if err := c.begin(ctx, TakeOver, ref); err != nil {
		return err
	}
	defer c.mu.Unlock()
	live := c.objects[ref]
	if live == nil {
		return apierrors.NewNotFound(resource(ref), name)
	}
	next := live.DeepCopy()
	fields := next.GetManagedFields()
	for i := range fields {
		if fields[i].Manager == from && fields[i].Operation == metav1.ManagedFieldsOperationUpdate && fields[i].Subresource == "" {
			fields[i].Manager, fields[i].Operation = to, metav1.ManagedFieldsOperationApply
		}
	}
	next.SetManagedFields(fields)
	_, err := c.answer(TakeOver, ref, c.store(ref, next))
	return err
}

// WriteStatus implements grid.API.
func (c *Cluster) WriteStatus(ctx context.Context, kind, namespace, name, uid string, status any) error {
	ref := plan.Ref{Kind: kind, Namespace: namespace, Name: name}
	if err := c.begin(ctx, WriteStatus, ref); err != nil {
		return err
	}
	defer c.mu.Unlock()
	live := c.objects[ref]
	switch {
	case live == nil:
		return apierrors.NewNotFound(resource(ref), name)
	case live.GetUID() != types.UID(uid): // a failed "test" of a JSON patch
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", resource(ref), name, "", 0, false)
	}
	next := live.DeepCopy()
	next.Object["status"] = roundTrip(plan.Object{"status": status})["status"]
	_, err := c.answer(WriteStatus, ref, c.store(ref, next))
	return err
}

// Delete implements grid.API.
func (c *Cluster) Delete(ctx context.Context, kind, namespace, name, version string) error {
	ref := plan.Ref{Kind: kind, Namespace: namespace, Name: name}
	if err := c.begin(ctx, Delete, ref); err != nil {
		return err
	}
	defer c.mu.Unlock()
	live := c.objects[ref]
	switch {
	case live == nil:
		return nil
	case version != "" && version != live.GetResourceVersion():
		return conflict(ref)
	}
	c.remove(ref)
	_, err := c.answer(Delete, ref, live)
	return err
}

// answer is what the caller of a write hears of it.
func (c *Cluster) answer(verb Verb, ref plan.Ref, u *unstructured.Unstructured) (plan.Object, error) {
	if c.cfg.Lose != nil && c.cfg.Lose(verb, ref) {
		return nil, fmt.Errorf("%s %s: %w", verb, ref, io.ErrUnexpectedEOF)
	}
	return pruned(u), nil
}

// store gives an object its new version, if it is another, and returns it.
func (c *Cluster) store(ref plan.Ref, next *unstructured.Unstructured) *unstructured.Unstructured {
	old := c.objects[ref]
	if c.cfg.Mutate != nil {
		c.cfg.Mutate(next.Object)
	}
	if old == nil {
		c.uids++
		next.SetUID(types.UID(fmt.Sprintf("uid-%d", c.uids)))
		next.SetCreationTimestamp(metav1.Now())
		next.SetGeneration(1)
	} else {
		next.SetResourceVersion(old.GetResourceVersion())
		if same(old, next) {
			return old
		}
		next.SetGeneration(old.GetGeneration() + raised(old, next))
	}
	c.version++
	next.SetResourceVersion(strconv.FormatInt(c.version, 10))
	if c.cfg.AutoReady {
		rollOut(next)
	}
	c.objects[ref] = next
	if len(c.calls) > 0 {
		c.calls[len(c.calls)-1].Changed = true
	}
	c.watch.told(ref, next)
	return next
}

// remove takes away an object and what it owns.
func (c *Cluster) remove(ref plan.Ref) {
	gone := c.objects[ref]
	delete(c.objects, ref)
	c.version++
	if len(c.calls) > 0 {
		c.calls[len(c.calls)-1].Changed = true
	}
	c.watch.told(ref, nil)
	if c.cfg.Passes {
		return
	}
	for other, u := range c.objects {
		owned := func(o metav1.OwnerReference) bool { return o.UID == gone.GetUID() }
		if slices.ContainsFunc(u.GetOwnerReferences(), owned) {
			c.remove(other)
		}
	}
}

// raised is by how much an update raises the generation: a Deployment's new
// annotations count too.
func raised(old, next *unstructured.Unstructured) int64 {
	if reflect.DeepEqual(old.Object["spec"], next.Object["spec"]) &&
		(next.GetKind() != "Deployment" || reflect.DeepEqual(old.GetAnnotations(), next.GetAnnotations())) {
		return 0
	}
	return 1
}

// same reports whether objects differ in nothing but the times of managed fields.
func same(a, b *unstructured.Unstructured) bool {
	timeless := func(u *unstructured.Unstructured) plan.Object {
		u = u.DeepCopy()
		fields := u.GetManagedFields()
		for i := range fields {
			fields[i].Time = nil
		}
		u.SetManagedFields(fields)
		return u.Object
	}
	return reflect.DeepEqual(timeless(a), timeless(b))
}

// manager is the API server's own field manager, without schemas.
func (c *Cluster) manager(gvk schema.GroupVersionKind) *managedfields.FieldManager {
	m := c.managers[gvk]
	if m == nil {
		m = managedfieldstest.NewFakeFieldManager(managedfields.NewDeducedTypeConverter(), gvk)
		c.managers[gvk] = m
	}
	return m
}

func conflict(ref plan.Ref) error {
	return apierrors.NewConflict(resource(ref), ref.Name, fmt.Errorf("the object has been modified"))
}

func resource(ref plan.Ref) schema.GroupResource { return schema.GroupResource{Resource: ref.Kind} }
