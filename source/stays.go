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
// or that no API server takes as they are now, and of one that never could be all that is missing.
func (f *file) stay(old file) {
	switch {
	case f.fault != "":
		f.content, f.versions = old.content, old.versions
	case f.empty && len(old.content.taken()) > 0: // somebody is about to write it
		f.stayWhole(old, topology.Problem{Object: "file " + f.path, Text: "it is empty; write what it is to have, or remove it"})
	case f.content.broken != nil && old.content.broken == nil:
		p := *f.content.broken
		p.Text += "; correct it"
		f.stayWhole(old, p)
	case f.content.keep(old.content) && len(f.versions) > 0:
		f.versions = chain(old.versions, f.versions)
	}
}

// soundIn are the names of objects that an API server would take, in any file.
func soundIn(files []file) map[string]bool {
	sound := map[string]bool{}
	for _, f := range files {
		for _, key := range f.content.soundKeys() {
			sound[key] = true
		}
	}
	return sound
}

// wrong are the names of objects that are left out, or that no API server would take.
func (m *manifests) wrong() map[string]bool {
	names := map[string]bool{}
	for _, o := range slices.Concat(m.leftOut, slices.Collect(maps.Keys(m.refused))) {
		if o.name != "" {
			names[o.key()] = true
		}
	}
	return names
}

func (f *file) stayWhole(old file, why topology.Problem) {
	why.Text, why.Loss = fileStays+withoutLeftOut.Replace(why.Text), topology.LostNewer
	f.content, f.torn, f.versions = old.content, &why, old.versions
}

// turn is an object of a file by its name, and how many of the name are behind it: of two the
// last counts.
type turn struct {
	key    string
	behind int
}

// taken are the objects of a file that are not left out.
func (m *manifests) taken() (all []origin) {
	all = addOrigins(all, m.services)
	all = addOrigins(all, m.slices)
	all = addOrigins(all, m.nodes)
	return addOrigins(all, m.cidrs)
}

// turns are those of all objects of a file that have a name, also of those that are left out, or
// are refused and would be passed over.
func (m *manifests) turns() map[origin]turn {
	all := slices.Concat(m.leftOut, m.taken(), slices.Collect(maps.Keys(m.refused)))
	slices.SortFunc(all, func(a, b origin) int { return b.nth - a.nth })
	turns, behind := make(map[origin]turn, len(all)), map[string]int{}
	for _, o := range all {
		if _, again := turns[o]; !again && o.name != "" {
			turns[o] = turn{o.key(), behind[o.key()]}
			behind[o.key()]++
		}
	}
	return turns
}

// keeping are objects of before that stay: in place of which one that is there now, or besides.
type keeping struct {
	instead map[origin]origin
	besides map[origin]bool
	gone    map[origin]bool // which are not in force
}

// keep takes objects of before, in place of those of the same name that are left out, or that
// no API server takes as they are now; where those of before were no better, what is new counts.
// What is missing in a file that cannot be taken apart may be in there.
func (m *manifests) keep(before *manifests) (any bool) {
	turns, here := m.turns(), map[string]bool{}
	for o := range turns {
		here[o.name] = true
	}
	k := keeping{map[origin]origin{}, map[origin]bool{}, map[origin]bool{}}
	had, ofBefore := map[turn]origin{}, before.turns()
	for _, o := range before.taken() {
		if !before.refused[o] {
			had[ofBefore[o]] = o
		}
		if m.broken != nil && !here[o.name] {
			k.besides[o] = true
		}
	}
	stays := func(o origin) bool {
		was, is := had[turns[o]]
		if is {
			k.instead[was], k.gone[o] = o, true
		}
		return is
	}
	m.leftOut = slices.DeleteFunc(m.leftOut, stays)
	maps.DeleteFunc(m.refused, func(o origin, _ bool) bool { return stays(o) })
	m.take(before, k)
	return len(k.instead)+len(k.besides) > 0
}

// take takes what stays, and tells of it.
func (m *manifests) take(before *manifests, k keeping) {
	if len(k.gone) > 0 {
		again(m, m.services, k.gone, func(s service) []topology.Problem { return s.is.Problems })
		again(m, m.slices, k.gone, func(s placed[*topology.Slice]) []topology.Problem { return s.is.Problems })
	}
	m.services = staying(k, m.services, before.services)
	m.slices = staying(k, m.slices, before.slices)
	m.nodes = staying(k, m.nodes, before.nodes)
	m.cidrs = staying(k, m.cidrs, before.cidrs)
	places := map[string]bool{}
	for o := range k.gone {
		places[o.String()] = true
	}
	for i, p := range m.problems {
		switch {
		case p.Loss != topology.LostNothing && places[p.Object]:
			asBefore(m.problems[i : i+1])
		case len(k.besides) > 0 && p == *m.broken:
			m.problems[i].Text += "; what the file had before stays, where it is not in it now: correct it"
		}
	}
	for o := range k.besides {
		if before.refused[o] {
			m.refuses(o)
		}
	}
}

// again tells of a file what objects have said of themselves, which are not in force.
func again[T written](m *manifests, list []T, gone map[origin]bool, problems func(T) []topology.Problem) {
	for _, o := range list {
		for _, p := range problems(o) {
			if p.Object = o.from().String(); gone[o.from()] && p.Loss != topology.LostNothing {
				m.problems = append(m.problems, p)
			}
		}
	}
}

// written is what an object of manifests is, of whatever kind.
type written interface{ from() origin }

func (o origin) from() origin { return o }

// moves is what can be told that it is written elsewhere.
type moves[T any] interface {
	*T
	written
	move(to origin)
}

func (o *origin) move(to origin) { *o = to }

const ofAPIServer = " of an API server"

// key tells what an API server told from what is written to be put over it.
func (o origin) key() string {
	if o.live {
		return o.name + ofAPIServer
	}
	return o.name
}

func addOrigins[T written](all []origin, list []T) []origin {
	for _, o := range list {
		all = append(all, o.from())
	}
	return all
}

// staying are objects, with those of before that stay, in the order of the file: what is written is
// put over what is before it.
func staying[T any, P moves[T]](k keeping, now, before []T) []T {
	now = slices.DeleteFunc(now, func(o T) bool { return k.gone[P(&o).from()] })
	var first, last []T
	for _, o := range before {
		at := P(&o).from()
		to, stays := k.instead[at]
		switch {
		case stays:
			P(&o).move(to)
			now = append(now, o)
		case k.besides[at] && at.live:
			first = append(first, o)
		case k.besides[at]:
			last = append(last, o)
		}
	}
	slices.SortStableFunc(now, func(a, b T) int { return P(&a).from().nth - P(&b).from().nth })
	return slices.Concat(first, now, last)
}
