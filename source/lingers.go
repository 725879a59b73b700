package source

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// lingering is what stays of files that have it no more, nor any other: objects that were moved and are wrong
// where they are now, and, as long as a file is torn that came as theirs went, what may be in there.
func (d *Dir) lingering(files []file) []file {
	if unchanged(files, d.base.files) {
		return d.base.left
	}
	now := scan(files)
	if len(now.wrong) == 0 && len(now.torn) == 0 {
		return nil
	}
	var left []file
	for _, f := range d.base.left {
		f.waits = slices.Clone(f.waits)
		if slices.ContainsFunc(f.waits, func(name string) bool { return !now.is[name] }) {
			f.waits = append(f.waits, now.came...) // it was renamed
		}
		left = now.keep(left, f)
	}
	for _, f := range d.base.files {
		f.keys, f.waits = f.content.soundKeys(), nil
		if !now.is[f.name] && f.content.broken == nil {
			f.waits = now.came
		}
		left = now.keep(left, f)
	}
	return left
}

// inOrder are files as they were asked for, with what lingers where it was among them: what is written is put
// over what is before it.
func (d *Dir) inOrder() []file {
	if len(d.left) == 0 {
		return d.files
	}
	all := slices.Concat(d.files, d.left)
	slices.SortStableFunc(all, func(a, b file) int { return strings.Compare(a.order(), b.order()) })
	return all
}

// order sorts files of a directory as they are listed: what is in a folder comes before what is beside it.
func (f *file) order() string { return strings.ReplaceAll(f.name, string(filepath.Separator), "\x00") }

// scanned is what there is in files by now.
type scanned struct {
	is, torn, sound map[string]bool
	wrong           map[string][]string // in which files
	came            []string            // torn, and new
	spoilt          []file              // torn, and not as they were before
}

func scan(files []file) scanned {
	now := scanned{is: map[string]bool{}, torn: map[string]bool{}, wrong: map[string][]string{}, sound: soundIn(files)}
	for _, f := range files {
		now.is[f.name] = true
		for key := range f.content.wrong() {
			now.wrong[key] = append(now.wrong[key], f.name)
		}
		if f.torn != nil || f.content.broken != nil {
			now.torn[f.name] = true
			if !f.same {
				now.spoilt = append(now.spoilt, f)
			}
			if f.new {
				now.came = append(now.came, f.name)
			}
		}
	}
	return now
}

// keep adds what lingers of a file, and in which others that are torn or wrong it may be.
func (now *scanned) keep(left []file, f file) []file {
	var waits []string
	elsewhere := func(name string) bool { return f.lingers || name != f.name } // in its own file it was judged
	for _, name := range f.waits {
		if now.torn[name] && elsewhere(name) {
			waits = append(waits, name)
		}
	}
	torn, keys := len(waits) > 0, []string(nil)
	for _, key := range f.keys {
		if now.sound[key] {
			continue
		}
		moved := slices.Concat(now.wrong[key], now.mention(key))
		moved = slices.DeleteFunc(moved, func(name string) bool { return !elsewhere(name) })
		if torn || len(moved) > 0 {
			keys, waits = append(keys, key), append(waits, moved...)
		}
	}
	if len(keys) == 0 {
		return left
	}
	slices.Sort(waits)
	if whole := len(keys) == len(f.keys) && f.lingers; !whole {
		f.content = f.content.only(keys)
	}
	f.keys, f.waits, f.lingers, f.fault, f.torn = keys, slices.Compact(waits), true, "", nil
	return append(left, f)
}

// mention are the files that were torn in this look and have the name of an object in them, as a word.
func (now *scanned) mention(key string) (files []string) {
	name := strings.TrimSuffix(key, ofAPIServer)
	name = name[strings.LastIndexAny(name, " /")+1:]
	for _, f := range now.spoilt {
		if hasWord(f.text, name) {
			files = append(files, f.name)
		}
	}
	return files
}

// hasWord reports whether a name stands in a text, and not in a longer one.
func hasWord(text []byte, name string) bool {
	part := func(c byte) bool { return c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' }
	for at := 0; name != ""; {
		i := bytes.Index(text[at:], []byte(name))
		if i < 0 {
			break
		}
		from, to := at+i, at+i+len(name)
		if (from == 0 || !part(text[from-1])) && (to == len(text) || !part(text[to])) {
			return true
		}
		at = to
	}
	return false
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
		if at := o.from(); !m.refused[at] && has(keys, at.key()) {
			some = append(some, o)
		}
	}
	return some
}

// has reports whether a key is among sorted ones.
func has(keys []string, key string) bool {
	_, is := slices.BinarySearch(keys, key)
	return is
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

// told are the problems of a file, of which objects of some keys linger.
func (m *manifests) told(before map[string]bool) []topology.Problem {
	if len(before) == 0 {
		return m.problems
	}
	places := map[string]bool{}
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
