package kube_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gridmesh/gridmesh/kube"
)

// pageOf is a page of pods, each "namespace/name", and the mark of the next.
func pageOf(next string, pods ...string) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{Continue: next}}
	for _, pod := range pods {
		namespace, name, _ := strings.Cut(pod, "/")
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	return list
}

// Each page is asked for from where the one before ends, with what narrows the list; what fails
// ends it. No order is asked of them: a database below the API server may have its own.
func TestPages(t *testing.T) {
	broken := errors.New("broken")
	for last, want := range map[error][]string{nil: {"", "b", "c"}, broken: {"", "b", "c"}} {
		var asked []string
		err := kube.Pages(metav1.ListOptions{Limit: 2, LabelSelector: "a"}, func(o metav1.ListOptions) (runtime.Object, error) {
			asked = append(asked, o.Continue)
			if o.Limit != 2 || o.LabelSelector != "a" {
				t.Errorf("asked with %+v", o)
			}
			switch o.Continue {
			case "":
				return pageOf("b", "a/web", "a/x"), nil
			case "b":
				return pageOf("c", "a-b/web"), nil
			}
			return pageOf("", "a/web"), last
		})
		if !slices.Equal(asked, want) || !errors.Is(err, last) {
			t.Errorf("asked from %q: %v; want %q: %v", asked, err, want, last)
		}
	}
}

// Who takes no notice of where the page before ended is not asked for ever, whatever the marks are.
func TestPagesWithoutAnEnd(t *testing.T) {
	other := func(asked int) string { return fmt.Sprint("mark ", asked) }
	for name, tc := range map[string]struct {
		page func(asked int) *corev1.PodList
		most int
	}{
		"one mark":            {func(asked int) *corev1.PodList { return pageOf("b", fmt.Sprint("a/", asked)) }, 2},
		"another mark":        {func(asked int) *corev1.PodList { return pageOf(other(asked), "a/x", "a/y") }, 2},
		"another mark, empty": {func(asked int) *corev1.PodList { return pageOf(other(asked)) }, 2},
		"three in a circle":   {func(asked int) *corev1.PodList { return pageOf(other(asked), fmt.Sprint("a/", asked%3), "a/y") }, 4},
		"the first grows":     {func(asked int) *corev1.PodList { return pageOf(other(asked), slices.Repeat([]string{"a/x"}, asked)...) }, 2},
	} {
		asked := 0
		err := kube.Pages(metav1.ListOptions{Limit: 2}, func(metav1.ListOptions) (runtime.Object, error) {
			if asked++; asked > 10 {
				return nil, errors.New("it is asked again and again")
			}
			return tc.page(asked), nil
		})
		if err == nil || asked != tc.most || !strings.Contains(err.Error(), "the same page") {
			t.Errorf("%s: asked %d times: %v", name, asked, err)
		}
	}
}

// A list that begins anew begins as the one before did.
func TestPagesOfAnotherList(t *testing.T) {
	var p kube.Paging
	for range 3 {
		if next, err := p.Page(metav1.ListOptions{}, pageOf("b", "a/x")); next != "b" || err != nil {
			t.Errorf("next is %q, %v", next, err)
		}
		if next, err := p.Page(metav1.ListOptions{Continue: "b"}, pageOf("", "a/y")); next != "" || err != nil {
			t.Errorf("next is %q, %v", next, err)
		}
	}
}
