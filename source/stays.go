package source

import (
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// What Problems say where what is in force is not what is written now.
const (
	fileStays   = "; until then all of the file stays in force as it was before"
	objectStays = "; until then the object stays in force as it was before"
)

// notTaken are what Problems of a file, or of a document in it, say where nobody knows what
// it holds; notTakenOf are those of an object that is known.
var (
	notTaken   = []string{"cannot be read", "is no Kubernetes manifest", "left out", "cannot be split"}
	notTakenOf = []string{objectLeftOut, documentLeftOut, "it is of no Service and is left out"}
)

// NotTaken reports whether a Problem is of manifests of which something is not in force as
// it is written now: of a file that cannot be read or taken apart, or of an object that
// cannot be read, and is left out or stays as it was before.
func NotTaken(p topology.Problem) bool {
	if strings.HasSuffix(p.Text, fileStays) || strings.HasSuffix(p.Text, objectStays) {
		return true
	}
	says := func(text string) bool { return strings.Contains(p.Text, text) }
	return strings.HasPrefix(p.Object, "file ") && slices.ContainsFunc(notTaken, says) ||
		strings.Contains(p.Object, "(file ") && slices.ContainsFunc(notTakenOf, says)
}

// torn tells of what cannot be taken apart: any object may be in it.
func (m *manifests) torn(place, field, format string, args ...any) {
	if m.fault(place, field, format, args...); m.broken == nil {
		m.broken = &topology.Problem{Object: place, Field: field, Text: m.problems[len(m.problems)-1].Text}
	}
}

// stay keeps of what a file had before what it has nothing else for now. One that was taken
// apart is all kept where it cannot be any more; of others the objects that are left out now.
func (f *file) stay(old file) {
	switch {
	case f.fault != "":
		f.content = old.content
	case f.empty && len(old.content.names()) > 0 && old.content.broken == nil: // somebody is about to write it
		f.stayWhole(old, topology.Problem{Object: "file " + f.path, Text: "is empty; write what it is to have, or remove it"})
	case f.content.broken == nil:
		f.content.keep(old.content)
	case old.content.broken == nil:
		without := strings.NewReplacer(", and is left out", "", " and is left out", "")
		p := *f.content.broken
		p.Text = without.Replace(p.Text) + "; correct it"
		f.stayWhole(old, p)
	}
}

func (f *file) stayWhole(old file, why topology.Problem) {
	why.Text += fileStays
	f.content, f.torn = old.content, &why
}

// keep takes objects of before, in place of those of the same name that are left out.
func (m *manifests) keep(before *manifests) {
	if len(m.leftOut) == 0 {
		return
	}
	here, had := m.names(), before.names()
	kept, places := map[string]bool{}, map[string]bool{}
	m.leftOut = slices.DeleteFunc(m.leftOut, func(out origin) bool {
		stays := out.name != "" && !here[out.name] && had[out.name]
		if stays {
			kept[out.name], places[out.String()] = true, true
		}
		return stays
	})
	m.services = append(m.services, named(before.services, kept)...)
	m.slices = append(m.slices, named(before.slices, kept)...)
	m.nodes = append(m.nodes, named(before.nodes, kept)...)
	m.cidrs = append(m.cidrs, named(before.cidrs, kept)...)
	for i, p := range m.problems {
		if places[p.Object] {
			m.problems[i].Text += objectStays
		}
	}
}

// names are those of the objects that are taken.
func (m *manifests) names() map[string]bool {
	all := map[string]bool{}
	addNames(all, m.services)
	addNames(all, m.slices)
	addNames(all, m.nodes)
	addNames(all, m.cidrs)
	return all
}

// hasName is what an object of manifests is, of whatever kind.
type hasName interface{ called() string }

func (o origin) called() string { return o.name }

func addNames[T hasName](all map[string]bool, list []T) {
	for _, o := range list {
		all[o.called()] = true
	}
}

// named are those that have one of the names: several where it is there twice.
func named[T hasName](all []T, names map[string]bool) (found []T) {
	for _, o := range all {
		if names[o.called()] {
			found = append(found, o)
		}
	}
	return found
}
