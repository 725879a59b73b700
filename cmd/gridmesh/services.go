package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
)

// wanted is which Services are asked for, as asked takes it: those of all
// arguments, none of which means all.
func (w *world) wanted(args []string, namespace string) ([]string, error) {
	if len(args) == 0 {
		if namespace == "" {
			return nil, nil
		}
		return []string{namespace + "/"}, nil
	}
	arg := w.withoutKind(args[0], namespace)
	before, name, whole := strings.Cut(arg, "/")
	switch {
	case arg == "" || whole && before == "" || strings.Contains(name, "/"):
		return nil, fmt.Errorf("%w: %q names no Service; say web, default/web, svc/web, or default/ for all of a namespace", run.ErrUsage, args[0])
	case namespace != "" && !whole:
		arg = namespace + "/" + arg
	case namespace != "" && before != namespace:
		return nil, fmt.Errorf("%w: %s is not in the namespace of -n %s; leave one of them out", run.ErrUsage, arg, namespace)
	}
	return []string{arg}, nil
}

// withoutKind reads "svc/web" and "svc/default/web" as kubectl does: the first is
// the kind. It is a namespace where nothing else says which, and there is one of
// that name.
func (w *world) withoutKind(arg, namespace string) string {
	kind, name, found := strings.Cut(arg, "/")
	switch {
	case !found || !slices.Contains([]string{"svc", "service", "services"}, strings.ToLower(kind)):
		return arg
	case strings.Contains(name, "/"), namespace != "" && name != "", !w.hasNamespace(kind):
		return name
	}
	return arg
}

func (w *world) hasNamespace(name string) bool {
	return slices.ContainsFunc(servicesOf(w.snap), func(key topology.ObjectKey) bool { return key.Namespace == name })
}

// servicesOf are the Services of a state, which also has slices of those that are not there.
func servicesOf(snap *topology.Snapshot) (list []topology.ObjectKey) {
	for key, entry := range snap.Services.All() {
		if entry.Service != nil {
			list = append(list, key)
		}
	}
	return list
}

// absent says that what was asked for is no Service, and what there is instead.
func (w *world) absent(arg string) error {
	var alone []string // slices without their Service
	for key, entry := range w.snap.Services.All() {
		if entry.Service == nil && asked(key.String(), arg) {
			alone = append(alone, key.String())
		}
	}
	instead := w.services(arg)
	if slices.Sort(alone); len(alone) > 0 {
		instead = fmt.Sprintf(": there are slices of %s, but no Service; add it, or correct the label %s of the slices", plan.Short(alone), names.ServiceName)
	}
	return fmt.Errorf("no Service %s in this state%s%s", none(arg), instead, besides(w.snap.Problems))
}

// none is how what is asked for is named where there is nothing of it.
func none(arg string) string {
	if namespace, all := strings.CutSuffix(arg, "/"); all {
		return "of namespace " + namespace
	}
	return arg
}

// services names some of the state's Services, to choose from in place of one
// that is not there: first those whose names begin or end alike.
func (w *world) services(instead string) string {
	const most = 5
	var list []string
	for _, key := range servicesOf(w.snap) {
		list = append(list, key.String())
	}
	if len(list) == 0 {
		return ": it has none"
	}
	slices.SortFunc(list, func(a, b string) int {
		if likeness := common(b, instead) - common(a, instead); likeness != 0 {
			return likeness
		}
		return strings.Compare(a, b)
	})
	text, it := ", in any namespace", "; it"
	if strings.Contains(instead, "/") {
		text = ""
	}
	if meant := nearly(instead, list); meant != "" {
		text, it = text+"; did you mean "+meant+"?", " It"
	}
	text += it + " has " + strings.Join(list[:min(len(list), most)], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// nearly is the Service, of namespace/name, that may be meant by a name, with its
// namespace or without: one of a grid of that name, of another namespace, or with
// nearly that name; "" for none.
func nearly(wanted string, keys []string) string {
	namespace, name, whole := strings.Cut(wanted, "/")
	if !whole {
		name = wanted
	}
	here, elsewhere := map[string]string{}, map[string]string{}
	for _, key := range slices.Backward(keys) { // of two the first stands
		space, own, _ := strings.Cut(key, "/")
		if elsewhere[own] = key; !whole || space == namespace {
			here[own] = key
		}
	}
	return cmp.Or(here[name+ofGrid], elsewhere[name], here[near.Word(name, slices.Collect(maps.Keys(here)))])
}

// ofGrid is what a ServiceGrid's Service has behind the name of the grid.
const ofGrid = "-svc"

// common is how many letters of a Service's key and a wanted name are the same
// at both ends; the namespace counts where it is given.
func common(key, name string) (n int) {
	if !strings.Contains(name, "/") {
		_, key, _ = strings.Cut(key, "/")
	}
	for n < len(key) && n < len(name) && key[n] == name[n] {
		n++
	}
	rest := min(len(key), len(name)) - n
	for i := 1; i <= rest && key[len(key)-i] == name[len(name)-i]; i++ {
		n++
	}
	return n
}
