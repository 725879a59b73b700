package grid_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// What an API server finds no place for in a child comes back as an error 500
// without a reason. No try ends otherwise: it is a refusal like any other, with
// the field, of the grid and of each unit. What else has that status is not.
func TestASchemaRefusalIsFinal(t *testing.T) {
	const of = "(default/till-north; apps/v1, Kind=Deployment)"
	for name, tc := range map[string]struct {
		code    int32
		message string
		want    string // of the condition; "" where it is tried again
	}{
		"unknown field": {
			500, "failed to create typed patch object " + of + `: .spec.template.spec.containers[name="c"].imgae: field not declared in schema`,
			`spec.template.spec.containers[name="c"].imgae: field not declared in schema`,
		},
		"two fields": {
			500, "failed to create typed patch object " + of + ": errors:\n  .spec.a: field not declared in schema\n  .spec.b: expected numeric, got string",
			"spec.a: field not declared in schema, spec.b: expected numeric, got string",
		},
		"quantity":  {500, "failed to convert new object " + of + " to proper version: quantities must match the regular expression", "quantities must match the regular expression"},
		"too large": {http.StatusRequestEntityTooLarge, "limit is 3145728", "limit is 3145728"},
		"etcd":      {500, "etcdserver: request timed out", ""},
		"webhook":   {500, "failed calling webhook: failed to create typed patch object", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
				if verb != gridtest.Apply || ref.Kind != "Deployment" {
					return nil
				}
				status := metav1.Status{Status: metav1.StatusFailure, Code: tc.code, Message: tc.message}
				if tc.code == http.StatusRequestEntityTooLarge {
					status.Reason = metav1.StatusReasonRequestEntityTooLarge
				}
				return &apierrors.StatusError{ErrStatus: status}
			}
			run(t, settings{Config: gridtest.Config{Before: before}}, func(c *gridtest.Cluster) {
				shops("north")(c)
				update(c, tillGrid)
			}, func(w *world) {
				w.soon()
				status, message := w.condition(till, "Valid")
				if tc.want == "" {
					if status != "True" {
						t.Errorf("Valid is %s: %s", status, message)
					}
					return
				}
				text := "the API server refuses the child: " + tc.want + "; correct the template, or what forbids it"
				if status != "False" || message != "unit north: "+text {
					t.Errorf("Valid is %s: %s", status, message)
				}
				worst, _ := w.at(till, "status.worst").([]any)
				if len(worst) != 1 || worst[0].(plan.Object)["message"] != text {
					t.Errorf("the worst units are %v", worst)
				}
				w.event("Refused: deploymentgrid default/till: unit north: " + strings.TrimSuffix(text, "; correct the template, or what forbids it"))
				since := time.Now()
				w.pass(5 * time.Minute)
				if n := len(w.written(since)); n > 8 {
					t.Errorf("%d writes in 5 minutes: it is to be tried seldom, and its status to stay", n)
				}
			})
		})
	}
}
