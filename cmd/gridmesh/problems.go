package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/refusal"
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

// about are those of the Services that were asked for, and of the node, and of files and
// of Nodes that are left out, which may hide more. Nothing asked for means all.
func (w *world) about(args []string, all []topology.Problem) []topology.Problem {
	if len(args) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(p topology.Problem) bool {
		return !slices.ContainsFunc(args, func(arg string) bool { return w.concerns(arg, p) })
	})
}

// concerns reports whether a Problem may matter to the Services that an argument names.
func (w *world) concerns(arg string, p topology.Problem) bool {
	kind, rest, _ := strings.Cut(p.Object, " ")
	name, _, _ := strings.Cut(rest, " ")
	switch kind {
	case "service":
		return asked(name, arg)
	case "endpointslice":
		return strings.HasPrefix(name, "(") || w.hasSlice(arg, name) // one without a name may be of any
	case "file", "standard", "manifests":
		return true
	case "node":
		return name == w.view.Viewpoint.Name || source.LosesNode(p)
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

// noService is an argument that names none: what concerns it makes any answer unsure.
var noService = []string{"/"}

// unknownNodes are notices of endpoints on nodes that the state lacks. Of a Node whose
// manifest was left out a problem tells why, and what helps.
func (w *world) unknownNodes() []topology.Problem {
	list := w.snap.UnknownNodeNotices()
	for i := range list {
		name, _, _ := strings.Cut(list[i].Text, " ")
		if source.LeftOutNode(w.snap.Problems, name) {
			list[i].Text = name + " is left out of this state, so the endpoint is in no unit; " + cureLeftOut(name)
		}
	}
	return list
}

func cureLeftOut(node string) string {
	return fmt.Sprintf("correct the manifest of node %s, as its problem says", node)
}

// sure is a cause with what manifests say of it: that a Node is there, and was left out, and
// that endpoints have other ports.
func (w *world) sure(to topology.Frontend, c *refusal.Cause) *refusal.Cause {
	if c == nil {
		return nil
	}
	better := *c
	if _, known := w.snap.Nodes.Get(c.Node); c.Node != "" && !known && source.LeftOutNode(w.snap.Problems, c.Node) {
		better.Cure = cureLeftOut(c.Node) + "; gridmesh view " + c.Service + " shows every endpoint"
	}
	if c.Why == refusal.NoEndpoint {
		if out := w.portless(to); len(out) > 0 {
			better.Why += fmt.Sprintf(": of %d, %s is left out (%s)", len(out), out[0].Address, out[0].Reason)
			better.Cure = "give the port of the Service and that of the slice one name and protocol"
			if out[0].unnamed {
				better.Cure = "where targetPort in the Service's spec.ports is a name, give a port of the pods' containers that name, or write its number; " +
					"of a slice that somebody wrote, add the port"
			}
			better.Cure += "; gridmesh view " + c.Service + " shows every endpoint"
		}
	}
	return &better
}

// portless are the endpoints that no slice has with the port of a frontend.
func (w *world) portless(to topology.Frontend) []endRow {
	for _, s := range w.view.Sorted() {
		for i := range s.Frontends {
			if s.Frontends[i].Frontend == to {
				entry, _ := w.snap.Services.Get(s.Key)
				return portless(entry, to, s.Frontends[i].PortName)
			}
		}
	}
	return nil
}
