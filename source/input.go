package source

import (
	"errors"
	"fmt"

	"github.com/gridmesh/gridmesh/topology"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Input are manifests that are read once, as a command line names them.
type Input struct {
	// Paths are directories, of which what ends in .yaml, .yml or .json is read,
	// and files.
	Paths []string
	// Texts has the content of paths that cannot be read twice, as Stdin.
	Texts map[string][]byte
}

// ErrNothing means that a path leads to no manifest.
var ErrNothing = errors.New("no manifest is there")

// Snapshot is what they make.
func (in Input) Snapshot() (*topology.Snapshot, error) {
	files, err := in.files()
	if err != nil {
		return nil, err
	}
	d := NewDir("")
	d.read(files)
	return d.build(), nil
}

// Objects are those of any kind, as the unstructured objects of a dynamic
// client (numbers are int64 or float64), and what is wrong with them. One that
// is there twice is returned twice.
func (in Input) Objects() (found []map[string]any, problems []topology.Problem, err error) {
	files, err := in.files()
	if err != nil {
		return nil, nil, err
	}
	m := &manifests{raw: true}
	for _, f := range files {
		if f.fault == "" {
			if err := m.file(&f); err != nil {
				f.fault = err.Error()
			}
		}
		if f.fault != "" {
			m.problems = append(m.problems, unreadable(f.path, f.fault))
		}
	}
	var d doubts
	seen := byName[string, *map[string]any]{}
	for i := range m.objects {
		o := &m.objects[i]
		found = append(found, o.is)
		if o.name == "" {
			continue
		}
		version, _ := o.is["apiVersion"].(string)
		seen.put(version+" "+o.name, placed[*map[string]any]{&o.is, o.origin}, &d)
	}
	return found, append(m.problems, d.all()...), nil
}

// files are those under all paths, each once.
func (in Input) files() (all []file, err error) {
	seen := map[string]bool{}
	for _, path := range in.Paths {
		var found []file
		text, given := in.Texts[path]
		switch {
		case given:
			found = []file{{path: path, text: text, given: true}}
		case path == "":
			return nil, fmt.Errorf("read manifests: the path is empty; give a file, a directory, or %s for standard input", Stdin)
		default:
			if found, err = list(path); err != nil {
				return nil, err
			}
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("read manifests: %w: nothing in %s ends in .yaml, .yml or .json", ErrNothing, path)
		}
		for _, f := range found {
			if !seen[f.path] {
				seen[f.path] = true
				all = append(all, f)
			}
		}
	}
	return all, nil
}
