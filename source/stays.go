package source

import (
	"maps"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// What Problems begin with where what is in force is not what is written now.
const (
	fileStays   = "is not in force, and all of the file stays as it was before: "
	objectStays = "is not in force, and the object stays as it was before: "
)

// withoutLeftOut is what a Problem says besides where nothing is left out.
var withoutLeftOut = strings.NewReplacer(", and the object is left out", "", "; the document is left out", "", ": it is of no Service and is left out", "", ", and is left out", "", " and is left out", "")

// torn tells of what cannot be taken apart: any object may be in it.
func (m *manifests) torn(place, field, format string, args ...any) {
	if m.lost(topology.LostAll, place, field, format, args...); m.broken == nil {
		broken := m.problems[len(m.problems)-1]
		m.broken = &broken
	}
}

// stay keeps of what a file had before what it has nothing else for now. One that was taken
// apart is all kept where it cannot be any more; of others the objects that are left out now,
// or that no API server takes as they are now.
func (f *file) stay(old file) {
	switch {
	case f.fault != "":
		f.content = old.content
	case f.empty && len(old.content.names()) > 0 && old.content.broken == nil: // somebody is about to write it
		f.stayWhole(old, topology.Problem{Object: "file " + f.path, Text: "it is empty; write what it is to have, or remove it"})
	case f.content.broken == nil:
		f.content.keep(old.content)
	case old.content.broken == nil:
		p := *f.content.broken
		p.Text += "; correct it"
		f.stayWhole(old, p)
	}
}

func (f *file) stayWhole(old file, why topology.Problem) {
	why.Text, why.Loss = fileStays+withoutLeftOut.Replace(why.Text), topology.LostNewer
	f.content, f.torn = old.content, &why
}

// keep takes objects of before, in place of those of the same name that are left out, or that
// no API server takes as they are now; where those of before were no better, what is new counts.
func (m *manifests) keep(before *manifests) {
	here, had := m.sound(), before.sound()
	kept, places := map[string]bool{}, map[string]bool{}
	stays := func(o origin) bool {
		is := o.name != "" && !here[o.key()] && had[o.key()]
		if is {
			kept[o.key()], places[o.String()] = true, true
		}
		return is
	}
	m.leftOut = slices.DeleteFunc(m.leftOut, stays)
	maps.DeleteFunc(m.refused, func(o origin, _ bool) bool { return stays(o) })
	if len(kept) == 0 {
		return
	}
	for _, s := range named(m.services, kept) {
		m.again(s.origin, s.is.Problems)
	}
	for _, s := range named(m.slices, kept) {
		m.again(s.origin, s.is.Problems)
	}
	m.services = instead(m.services, before.services, kept)
	m.slices = instead(m.slices, before.slices, kept)
	m.nodes = instead(m.nodes, before.nodes, kept)
	m.cidrs = instead(m.cidrs, before.cidrs, kept)
	for i, p := range m.problems {
		if p.Loss != topology.LostNothing && places[p.Object] {
			m.problems[i].Text, m.problems[i].Loss = objectStays+withoutLeftOut.Replace(p.Text), topology.LostNewer
		}
	}
}

// again tells of a file what an object has said of itself, which is not in force.
func (m *manifests) again(at origin, problems []topology.Problem) {
	for _, p := range problems {
		if p.Object = at.String(); p.Loss != topology.LostNothing {
			m.problems = append(m.problems, p)
		}
	}
}

// sound are the names of the objects that an API server would take.
func (m *manifests) sound() map[string]bool { return m.namesBut(m.refused) }

// names are those of the objects that are taken.
func (m *manifests) names() map[string]bool { return m.namesBut(nil) }

func (m *manifests) namesBut(without map[origin]bool) map[string]bool {
	all := map[string]bool{}
	addNames(all, m.services, without)
	addNames(all, m.slices, without)
	addNames(all, m.nodes, without)
	addNames(all, m.cidrs, without)
	return all
}

// written is what an object of manifests is, of whatever kind.
type written interface{ from() origin }

func (o origin) from() origin { return o }

// key tells what an API server told from what is written to be put over it.
func (o origin) key() string {
	if o.live {
		return o.name + " of an API server"
	}
	return o.name
}

func addNames[T written](all map[string]bool, list []T, without map[origin]bool) {
	for _, o := range list {
		if !without[o.from()] {
			all[o.from().key()] = true
		}
	}
}

// named are those that have one of the names: several where it is there twice.
func named[T written](all []T, names map[string]bool) (found []T) {
	for _, o := range all {
		if names[o.from().key()] {
			found = append(found, o)
		}
	}
	return found
}

// instead are objects, with those of before that have one of some names.
func instead[T written](now, before []T, names map[string]bool) []T {
	now = slices.DeleteFunc(now, func(o T) bool { return names[o.from().key()] })
	return append(now, named(before, names)...)
}
