package kube

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// errSamePage is told of a list that would have no end.
var errSamePage = errors.New("the API server, or who is before it, gives the same page of a list again and again: it takes no notice of continue")

// PageSize is how many objects of a list are asked for at once, where there is no reason for less.
const PageSize = 500

// Pages asks for a list, one page after the other: ask takes a page, and returns where the next
// one begins, "" for none.
func Pages(o metav1.ListOptions, ask func(o metav1.ListOptions) (next string, err error)) error {
	for {
		next, err := ask(o)
		switch {
		case err != nil || next == "":
			return err
		case next == o.Continue:
			return errSamePage
		}
		o.Continue = next
	}
}

// Paged is an error where who answers a list gives a page with the mark that it was asked for with: one
// that knows no pages gives the first again and again, and its list would have no end.
func Paged(asked metav1.ListOptions, list runtime.Object) error {
	if m, err := meta.ListAccessor(list); err == nil && asked.Continue != "" && m.GetContinue() == asked.Continue {
		return errSamePage
	}
	return nil
}
