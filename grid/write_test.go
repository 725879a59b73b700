package grid

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What is remembered of a failure, for each unit, is bounded, though the API server
// quotes what it refuses.
func TestAFailureIsCut(t *testing.T) {
	quoted := strings.Repeat("x", 1<<20)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "till-north", field.ErrorList{field.Invalid(field.NewPath("spec", "selector"), quoted, "is immutable")})
	for want, err := range map[string]error{"spec.selector: Invalid value": fmt.Errorf("apply: %w", invalid), "no answer: xxx": errors.New("no answer: " + quoted)} {
		if text := failureOf(err, time.Now()).Text; len(text) > 1000 || !strings.Contains(text, want) {
			t.Errorf("%d bytes: %.100s", len(text), text)
		}
	}
}
