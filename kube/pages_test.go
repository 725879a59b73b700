package kube_test

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube"
)

// Each page is asked for from where the one before ends, with what narrows the list; what fails
// ends it.
func TestPages(t *testing.T) {
	broken := errors.New("broken")
	for last, want := range map[error][]string{nil: {"", "b", "c"}, broken: {"", "b", "c"}} {
		var asked []string
		err := kube.Pages(metav1.ListOptions{Limit: 2, LabelSelector: "a"}, func(o metav1.ListOptions) (string, error) {
			asked = append(asked, o.Continue)
			if o.Limit != 2 || o.LabelSelector != "a" {
				t.Errorf("asked with %+v", o)
			}
			switch o.Continue {
			case "":
				return "b", nil
			case "b":
				return "c", nil
			}
			return "", last
		})
		if !slices.Equal(asked, want) || !errors.Is(err, last) {
			t.Errorf("asked from %q: %v; want %q: %v", asked, err, want, last)
		}
	}
}
