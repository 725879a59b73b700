package lead

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/kube"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// crdRetry is how often is asked whether a CRD serves by now.
const crdRetry = 200 * time.Millisecond

// InstallCRD applies a CustomResourceDefinition (YAML) where the spec of the
// live one differs, as same finds, and waits until it serves. It tries until
// ctx ends, unless the API server refuses the manifest or the right to apply it.
func InstallCRD(ctx context.Context, c *kube.Client, manifest []byte, manager string, same func(wanted, live any) bool) error {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &u.Object); err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	api := c.Dynamic.Resource(crdResource)
	for {
		live, err := api.Get(ctx, u.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !same(u.Object["spec"], live.Object["spec"]) {
			live, err = api.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: true})
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
			return fmt.Errorf("install CRD %s: %w", u.GetName(), err)
		}
		if err == nil && established(live) {
			return nil
		}
		select { // not served yet, or the API server is away
		case <-time.After(crdRetry):
		case <-ctx.Done():
			return fmt.Errorf("install CRD %s: %w", u.GetName(), errors.Join(ctx.Err(), err))
		}
	}
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
			return true
		}
	}
	return false
}
