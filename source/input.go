package source

import (
	"bytes"
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
	d.take(d.read(files))
	if err := blank(d.files); err != nil {
		return nil, err
	}
	return d.build(), nil
}

// blank fails where a file that was asked for, or a text, has no document: whoever
// was to write it failed. A cluster without objects is told by an empty List.
func blank(files []file) error {
	var errs []error
	for _, f := range files {
		switch {
		case !f.blank || f.asked == "":
		case !f.given:
			errs = append(errs, fmt.Errorf("%w: %s has no document; did the command that wrote it fail?", ErrNothing, f.asked))
		case len(bytes.TrimSpace(f.text)) == 0:
			errs = append(errs, fmt.Errorf("%w: %s is empty; did the command before the pipe fail?", ErrNothing, nameOf(f.asked)))
		default:
			errs = append(errs, fmt.Errorf("%w: %s has no document, but for comments; did the command before the pipe fail?", ErrNothing, nameOf(f.asked)))
		}
	}
	return errors.Join(errs...)
}

func nameOf(path string) string {
	if path == Stdin {
		return "standard input"
	}
	return path
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
	for i := range files {
		f := &files[i]
		if f.fault == "" {
			if err := m.file(f); err != nil {
				f.fault = err.Error()
			}
		}
		if f.fault != "" {
			m.problems = append(m.problems, unreadable(f.path, f.fault))
		}
	}
	if err := blank(files); err != nil {
		return nil, nil, err
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
	counts := map[string]origin{}
	places(seen, counts)
	tellBeside(m.leftOut, counts, &d)
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
			found = []file{{path: path, asked: path, text: text, given: true}}
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

// documented reports whether a text of YAML has more than the marks between
// documents, directives and comments, or null, which is a document of nothing.
func documented(text []byte) bool {
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		line = bytes.TrimSpace(line)
		if rest, marked := bytes.CutPrefix(line, []byte("---")); marked {
			line = bytes.TrimSpace(rest)
		}
		switch {
		case len(line) == 0, line[0] == '#', line[0] == '%':
		case string(line) == "...", string(line) == "null", string(line) == "~":
		default:
			return true
		}
	}
	return false
}
