package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/topology"
)

var errProblems = errors.New("there are problems in what was asked for")

func (r *reach) bindLenient(f *pflag.FlagSet) {
	f.BoolVar(&r.lenient, "lenient", false, "exit with 0 where problems are printed")
}

// judge returns what became of an output; one that has problems fails, so that
// a pipeline stops.
func (r *reach) judge(problems []topology.Problem, err error) error {
	if err != nil || r.lenient || len(problems) == 0 {
		return err
	}
	return fmt.Errorf("%w: %d (--lenient exits with 0)", errProblems, len(problems))
}

// besides is what an error is told with: problems that may be its cause, as a
// file that cannot be read.
func besides(problems []topology.Problem) string {
	const most = 5
	text := ""
	for _, p := range problems[:min(len(problems), most)] {
		text += "\nproblem: " + oneLine(p)
	}
	if more := len(problems) - most; more > 0 {
		text += fmt.Sprintf("\nand %d more problems", more)
	}
	return text
}

// doubt prints what makes an answer unsure that has no place for it, and fails
// then.
func (in *input) doubt(problems []topology.Problem, err error) error {
	for _, p := range problems {
		fmt.Fprintln(in.cmd.ErrOrStderr(), "problem:", oneLine(p))
	}
	return in.judge(problems, err)
}

// about are those of the Services that were asked for, and of the files and
// the node, which may hide more. Nothing asked for means all.
func (w *world) about(args []string, all []topology.Problem) []topology.Problem {
	if len(args) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(p topology.Problem) bool {
		return !slices.ContainsFunc(args, func(arg string) bool { return w.concerns(arg, p.Object) })
	})
}

// concerns reports whether what an object is may matter to the Services that an
// argument names.
func (w *world) concerns(arg, object string) bool {
	kind, rest, _ := strings.Cut(object, " ")
	name, _, _ := strings.Cut(rest, " ")
	switch kind {
	case "service":
		return asked(name, arg)
	case "endpointslice":
		return strings.HasPrefix(name, "(") || w.hasSlice(arg, name) // one without a name may be of any
	case "file", "standard", "manifests":
		return true
	case "node":
		return name == w.view.Viewpoint.Name
	}
	return false
}

// asked reports whether "namespace/name" is what an argument names, with its
// namespace or without; "namespace/" is all of it.
func asked(key, arg string) bool {
	if strings.HasSuffix(arg, "/") {
		return strings.HasPrefix(key, arg)
	}
	_, name, _ := strings.Cut(key, "/")
	return key == arg || name == arg
}

// hasSlice reports whether a slice is of the Services of an argument, or left out, and
// may be of them.
func (w *world) hasSlice(arg, slice string) bool {
	for key, entry := range w.snap.Services.All() {
		if slices.ContainsFunc(entry.Slices, func(s *topology.Slice) bool { return s.Key.String() == slice }) {
			return asked(key.String(), arg)
		}
	}
	namespace, _, whole := strings.Cut(arg, "/")
	return !whole || strings.HasPrefix(slice, namespace+"/")
}

func problemTexts(list []topology.Problem) []string {
	texts := []string{}
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return texts
}
