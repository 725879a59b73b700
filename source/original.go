package source

import (
	"fmt"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// original is a document as it is written. What is made of it has other texts: 0017 is 15
// there, and no is false.
type original struct {
	place  string
	text   []byte
	before int          // lines of the file
	root   *yamlv3.Node // nil until it is asked for
}

// below has what stands at the paths of an object that is at a place of the document; ""
// where it is not known.
func (o *original) below(place string) func(path string) string {
	return func(path string) string {
		if n := o.scalar(place, path); n != nil {
			return n.Value
		}
		return ""
	}
}

// line says in which line of the file that stands; nothing where it is not known.
func (o *original) line(place, path string) string {
	if n := o.scalar(place, path); n != nil {
		return fmt.Sprintf(", in line %d,", o.before+n.Line)
	}
	return ""
}

func (o *original) scalar(place, path string) *yamlv3.Node {
	if o.root == nil {
		o.root = &yamlv3.Node{}
		if yamlv3.Unmarshal(o.text, o.root) != nil || len(o.root.Content) != 1 {
			o.root = &yamlv3.Node{}
		}
	}
	if len(o.root.Content) != 1 {
		return nil
	}
	items := strings.ReplaceAll(strings.TrimPrefix(place, o.place), " ", ".")
	return scalarAt(o.root.Content[0], items+"."+path, 0)
}

// mostSteps bounds the way to a value: an alias may lead to where it stands.
const mostSteps = 100

// scalarAt is the scalar that a path leads to from a node, as Problems write
// paths, with a dot before it.
func scalarAt(n *yamlv3.Node, path string, steps int) *yamlv3.Node {
	if steps++; steps > mostSteps {
		return nil
	}
	switch n.Kind {
	case yamlv3.AliasNode:
		return scalarAt(n.Alias, path, steps)
	case yamlv3.ScalarNode:
		if path == "" {
			return n
		}
	case yamlv3.SequenceNode:
		number, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(number); ok && err == nil && strings.HasPrefix(path, "[") && 0 <= i && i < len(n.Content) {
			return scalarAt(n.Content[i], rest, steps)
		}
	case yamlv3.MappingNode:
		return entryAt(n, path, steps)
	}
	return nil
}

// entryAt is that of a mapping: of two entries with one key the last counts, and what is
// merged counts last.
func entryAt(n *yamlv3.Node, path string, steps int) (found *yamlv3.Node) {
	for key, below := range entries(n) {
		for _, step := range []string{"." + key, "[" + key + "]"} {
			if rest, ok := within(path, step); ok {
				found = scalarAt(below, rest, steps)
			}
		}
	}
	for i := 0; i+1 < len(n.Content) && found == nil; i += 2 {
		if n.Content[i].Tag == "!!merge" {
			found = merged(n.Content[i+1], path, steps)
		}
	}
	return found
}

// merged is what the mapping, or the first of several, has that is merged.
func merged(n *yamlv3.Node, path string, steps int) (found *yamlv3.Node) {
	if n.Kind != yamlv3.SequenceNode {
		return scalarAt(n, path, steps)
	}
	for _, from := range n.Content {
		if found = scalarAt(from, path, steps); found != nil {
			break
		}
	}
	return found
}

// within is a path without its first step, where it begins with that.
func within(path, step string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, step)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
