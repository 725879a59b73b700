package source

import (
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// lingering is what stays of files that have it no more, nor any other: objects that were moved and are wrong
// where they are now, and, as long as a file is torn that came as theirs went, what may be in there.
func (d *Dir) lingering(files []file) []file {
	if len(files) == len(d.files) && !slices.ContainsFunc(files, func(f file) bool { return !f.same }) {
		return d.left
	}
	is, torn, wrong := map[string]bool{}, map[string]bool{}, map[string][]string{} // in which files
	var came []string                                                              // torn
	for _, f := range files {
		is[f.name] = true
		for key := range f.content.wrong() {
			wrong[key] = append(wrong[key], f.name)
		}
		if f.torn == nil && f.content.broken != nil && !f.folder {
			torn[f.name] = true
			if f.new {
				came = append(came, f.name)
			}
		}
	}
	if len(wrong) == 0 && len(torn) == 0 {
		return nil
	}
	sound := soundIn(files)
	var left []file
	add := func(f file, waits []string) {
		f.waits = waits
		f.keys = slices.DeleteFunc(f.keys, func(key string) bool {
			moved := slices.ContainsFunc(wrong[key], func(name string) bool { return name != f.name }) // in its own file it was judged
			return sound[key] || len(waits) == 0 && !moved
		})
		if len(f.keys) > 0 {
			f.content, f.fault, f.torn = f.content.only(f.keys), "", nil
			left = append(left, f)
		}
	}
	for _, f := range d.left {
		waits := slices.DeleteFunc(slices.Clone(f.waits), func(name string) bool { return !torn[name] })
		if slices.ContainsFunc(f.waits, func(name string) bool { return !is[name] }) {
			waits = append(waits, came...) // it was renamed
		}
		add(f, waits)
	}
	for _, f := range d.files {
		f.keys = f.content.soundKeys()
		var waits []string
		if !is[f.name] && f.content.broken == nil {
			waits = came
		}
		add(f, waits)
	}
	return left
}

// soundKeys are the keys of the objects that an API server would take, sorted.
func (m *manifests) soundKeys() (keys []string) {
	for _, o := range m.taken() {
		if !m.refused[o] {
			keys = append(keys, o.key())
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// only are the objects of some keys, and nothing that is wrong.
func (m *manifests) only(keys []string) *manifests {
	return &manifests{services: those(m, m.services, keys), slices: those(m, m.slices, keys), nodes: those(m, m.nodes, keys), cidrs: those(m, m.cidrs, keys)}
}

func those[T written](m *manifests, list []T, keys []string) (some []T) {
	for _, o := range list {
		if at := o.from(); !m.refused[at] && slices.Contains(keys, at.key()) {
			some = append(some, o)
		}
	}
	return some
}

// asBefore are Problems of objects that stay as they were.
func asBefore(problems []topology.Problem) []topology.Problem {
	for i, p := range problems {
		if p.Loss != topology.LostNothing {
			problems[i].Text, problems[i].Loss = objectStays+withoutLeftOut.Replace(p.Text), topology.LostNewer
		}
	}
	return problems
}

// told are the problems of a file, of which some objects linger.
func (m *manifests) told(left []file) []topology.Problem {
	if len(left) == 0 {
		return m.problems
	}
	before, places := soundIn(left), map[string]bool{}
	for _, o := range slices.Concat(m.leftOut, slices.Collect(maps.Keys(m.refused))) {
		places[o.String()] = before[o.key()]
	}
	list := slices.Clone(m.problems)
	for i, p := range list {
		switch {
		case places[p.Object]:
			asBefore(list[i : i+1])
		case m.broken != nil && p == *m.broken:
			list[i].Text += "; what was in files that went as it came stays until it is corrected"
		}
	}
	return list
}
