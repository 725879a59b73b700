package lead

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gridmesh/gridmesh/kube"
)

// Objects are objects without a namespace, of one version of an API, that a program installs
// and keeps.
type Objects struct {
	Client  *kube.Client
	Version schema.GroupVersion
	Objects []map[string]any            // in the order in which they are applied
	Manager string                      // field manager
	Same    func(wanted, live any) bool // of two specs
	Wrote   func(err error)             // hears of each write; nil for nobody
}

// Installed is what came of an Install.
type Installed struct {
	Kept     int      // objects that are as they are to be
	Failed   int      // that are not
	Left     int      // of kinds that the API server does not have
	Unserved []string // which these are, in order
}

// Install applies each object where the spec of the live one differs, or there is none, and
// removes nothing. Objects of kinds that the API server does not serve are left out. One that
// fails stops no other; the error has all of them.
func (o *Objects) Install(ctx context.Context) (Installed, error) {
	var done Installed
	served, err := o.served(ctx)
	if err != nil {
		return done, err
	}
	var errs []error
	for _, obj := range o.Objects {
		u := &unstructured.Unstructured{Object: obj}
		resource, ok := served[u.GetKind()]
		if !ok {
			done.Unserved, done.Left = append(done.Unserved, u.GetKind()), done.Left+1
			continue
		}
		_, wrote, err := applied(ctx, o.Client.Dynamic.Resource(o.Version.WithResource(resource)), u, o.Manager, o.Same)
		if wrote && o.Wrote != nil {
			o.Wrote(err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("install %s %s: %w", u.GetKind(), u.GetName(), err))
			done.Failed++
			continue
		}
		done.Kept++
	}
	slices.Sort(done.Unserved)
	done.Unserved = slices.Compact(done.Unserved)
	return done, errors.Join(errs...)
}

// served are the resources of the version, by kind; none where there is no such version.
func (o *Objects) served(ctx context.Context) (map[string]string, error) {
	list, err := o.Client.Typed.Discovery().ServerResourcesForGroupVersionWithContext(ctx, o.Version.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the kinds of %s: %w", o.Version, err)
	}
	served := map[string]string{}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") { // which a subresource has
			served[r.Kind] = r.Name
		}
	}
	return served, nil
}

// applied applies an object where there is none, or one with another spec, and returns it as it
// is then.
func applied(ctx context.Context, api dynamic.ResourceInterface, u *unstructured.Unstructured, manager string, same func(wanted, live any) bool) (live *unstructured.Unstructured, wrote bool, err error) {
	live, err = api.Get(ctx, u.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !same(u.Object["spec"], live.Object["spec"]) {
		wrote = true
		live, err = api.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: true})
	}
	return live, wrote, err
}
