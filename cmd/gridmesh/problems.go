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

func (in *input) bindLenient(f *pflag.FlagSet) {
	f.BoolVar(&in.lenient, "lenient", false, "exit with 0 where problems are printed")
}

// judge returns what became of an output; one that has problems fails, so that
// a pipeline stops.
func (in *input) judge(problems []topology.Problem, err error) error {
	if err != nil || in.lenient || len(problems) == 0 {
		return err
	}
	return fmt.Errorf("%w: %d (--lenient exits with 0)", errProblems, len(problems))
}

// about are those of the Services that were asked for, and of the files and
// the node, which may hide more.
func (w *world) about(args []string, all []topology.Problem) []topology.Problem {
	if len(args) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(p topology.Problem) bool {
		kind, rest, _ := strings.Cut(p.Object, " ")
		name, _, _ := strings.Cut(rest, " ")
		switch kind {
		case "service":
			return !asked(name, args[0])
		case "endpointslice":
			return !w.hasSlice(args[0], name)
		}
		return false
	})
}

// asked reports whether "namespace/name" is what an argument names, with its
// namespace or without.
func asked(key, arg string) bool {
	_, name, _ := strings.Cut(key, "/")
	return key == arg || name == arg
}

func (w *world) hasSlice(arg, slice string) bool {
	for key, entry := range w.snap.Services.All() {
		if !asked(key.String(), arg) {
			continue
		}
		for _, s := range entry.Slices {
			if s.Key.String() == slice {
				return true
			}
		}
	}
	return false
}

func problemTexts(list []topology.Problem) []string {
	texts := []string{}
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return texts
}
