package kube_test

import (
	"errors"
	"slices"
	"strings"
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

// Who takes no notice of where the page before ended is not asked for ever.
func TestPagesWithoutAnEnd(t *testing.T) {
	asked := 0
	err := kube.Pages(metav1.ListOptions{Limit: 2}, func(metav1.ListOptions) (string, error) {
		if asked++; asked > 10 {
			t.Fatal("it is asked again and again")
		}
		return "b", nil
	})
	if err == nil || asked != 2 || !strings.Contains(err.Error(), "the same page") {
		t.Errorf("asked %d times: %v", asked, err)
	}
}
