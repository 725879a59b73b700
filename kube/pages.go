package kube

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PageSize is how many objects of a list are asked for at once, where there is no reason for less.
const PageSize = 500

// Pages asks for a list, one page after the other: ask takes a page, and returns where the next
// one begins, "" for none.
func Pages(o metav1.ListOptions, ask func(o metav1.ListOptions) (next string, err error)) (err error) {
	for {
		if o.Continue, err = ask(o); err != nil || o.Continue == "" {
			return err
		}
	}
}
