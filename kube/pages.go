package kube

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// errSamePage is told of a list that would have no end.
var errSamePage = errors.New("the API server, or who is before it, gives the same page of a list again and again: it takes no notice of continue")

// PageSize is how many objects of a list are asked for at once, where there is no reason for less.
const PageSize = 500

// Pages asks for a list, one page after the other, each from where the one before ends.
func Pages(o metav1.ListOptions, ask func(o metav1.ListOptions) (page runtime.Object, err error)) error {
	var p Paging
	for {
		page, err := ask(o)
		if err != nil {
			return err
		}
		if o.Continue, err = p.Page(o, page); err != nil || o.Continue == "" {
			return err
		}
	}
}

// Paging tells of the pages of one list, where others ask for them, whether they come to an end. The
// zero value has seen none; a page that is asked for without a mark is the first of another list.
type Paging struct {
	mu    sync.Mutex
	began map[string]bool // the "namespace/name" of the first object of each page; "" of one without any
}

// Page takes the next page, as it was asked for, and returns the mark by which the one after it is; ""
// for none. It is an error where no list of an API server goes on so: with the mark that it was asked for with,
// or with a page that begins as one before did, whatever its mark. Which of two comes first is the
// storage's to say: etcd goes by bytes, and a database below an API server perhaps by a language.
func (p *Paging) Page(asked metav1.ListOptions, page runtime.Object) (next string, err error) {
	if m, err := meta.ListAccessor(page); err == nil {
		next = m.GetContinue()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case asked.Continue == "":
		p.began = nil
	case next == asked.Continue:
		return "", errSamePage
	}
	if next == "" {
		return "", nil
	}
	begins := firstOf(page)
	if p.began[begins] {
		return "", errSamePage
	}
	if p.began == nil {
		p.began = map[string]bool{}
	}
	p.began[begins] = true
	return next, nil
}

// errFound ends a walk.
var errFound = errors.New("found")

// firstOf names the first object of a list; "" where it has none.
func firstOf(list runtime.Object) (name string) {
	_ = meta.EachListItem(list, func(o runtime.Object) error { // of what is no list: none
		if m, err := meta.Accessor(o); err == nil {
			name = m.GetNamespace() + "/" + m.GetName()
		}
		return errFound
	})
	return name
}
