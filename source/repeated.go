package source

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// toJSON converts a document, and tells of keys that occur twice in one mapping:
// the last one wins in silence, here as in kubectl.
func (m *manifests) toJSON(place string, doc []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSONStrict(doc)
	if err == nil {
		return raw, nil
	}
	if raw, err = yaml.YAMLToJSON(doc); err != nil {
		return nil, err
	}
	var root yamlv3.Node // knows where, and that what overrides a merged mapping is no mistake
	if yamlv3.Unmarshal(doc, &root) == nil && len(root.Content) == 1 {
		if line := secondKind(root.Content[0]); line > 0 {
			return nil, fmt.Errorf("yaml: line %d: kind occurs twice, as in two documents without a line of --- between them: write that, or remove one of them", line)
		}
		m.repeated(place, root.Content[0], 0)
	}
	return raw, nil
}

// secondKind is in which line a document has its second kind, where one of them is read; 0 for none. What the
// first one is of would be gone in silence.
func secondKind(n *yamlv3.Node) (line int) {
	times, read := 0, false
	for i := 0; n.Kind == yamlv3.MappingNode && i+1 < len(n.Content); i += 2 {
		if key, value := n.Content[i], n.Content[i+1]; key.Value == "kind" {
			if times++; times == 2 {
				line = key.Line
			}
			_, other := others[value.Value]
			read = read || other || slices.Contains(grids, value.Value) || strings.HasSuffix(value.Value, "List")
		}
	}
	if !read {
		return 0
	}
	return line
}

// repeated tells of the keys of an object that occur more than once, and of
// those in a List, that is inside so many Lists.
func (m *manifests) repeated(place string, n *yamlv3.Node, lists int) {
	kind := word(n, "kind")
	isList := strings.HasSuffix(kind, "List") && lists <= maxLists
	if !isList && !isRead(word(n, "apiVersion"), kind) {
		return
	}
	at := origin{place: place}
	if name := word(n, "metadata", "name"); !isList && name != "" {
		at.name = objectName(kind, word(n, "metadata", "namespace"), name)
	}
	left := maxUnknown
	keysTwice(n, "", isList, func(path string, times int) {
		switch left--; {
		case left < 0:
		case times == 2:
			m.fault(at.String(), path, "occurs twice, and the last one counts; remove one of them")
		default:
			m.fault(at.String(), path, "occurs %d times, and the last one counts; keep one of them", times)
		}
	})
	if left < 0 {
		m.fault(at.String(), "", "has %d more keys that occur twice", -left)
	}
	for key, items := range entries(n) {
		if isList && key == "items" && items.Kind == yamlv3.SequenceNode {
			for i, item := range items.Content {
				m.repeated(fmt.Sprintf("%s items[%d]", place, i), item, lists+1)
			}
		}
	}
}

// maxPath bounds how deep an object is looked through: no field is as far down.
const maxPath = 1000

// keysTwice yields the path of each key that occurs more than once in a mapping; of a
// List not what is in its items.
func keysTwice(n *yamlv3.Node, path string, isList bool, yield func(path string, times int)) {
	if len(path) > maxPath {
		return
	}
	switch n.Kind {
	case yamlv3.SequenceNode:
		for i, c := range n.Content {
			keysTwice(c, fmt.Sprintf("%s[%d]", path, i), false, yield)
		}
	case yamlv3.MappingNode:
		times := map[string]int{}
		for key := range entries(n) {
			times[key]++
		}
		for key, below := range entries(n) {
			at := pathTo(path, key)
			if times[key] > 1 {
				yield(at, times[key])
				times[key] = 0
			}
			if !isList || key != "items" {
				keysTwice(below, at, false, yield)
			}
		}
	}
}

// entries are those of a mapping whose keys are words, but for merges.
func entries(n *yamlv3.Node) iter.Seq2[string, *yamlv3.Node] {
	return func(yield func(string, *yamlv3.Node) bool) {
		if n.Kind != yamlv3.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind == yamlv3.ScalarNode && key.Tag != "!!merge" && !yield(key.Value, n.Content[i+1]) {
				return
			}
		}
	}
}

// word is the text that a path of keys leads to, by the last of each, which counts.
func word(n *yamlv3.Node, path ...string) string {
	for _, key := range path {
		var next *yamlv3.Node
		for k, below := range entries(n) {
			if k == key {
				next = below
			}
		}
		if n = next; n == nil {
			return ""
		}
	}
	return n.Value
}

var plainKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// pathTo is how Problems write the path to a key: those that people choose stand in
// brackets.
func pathTo(path, key string) string {
	if len(key) > maxFault {
		key = strings.ToValidUTF8(key[:maxFault], "") + "..."
	}
	chosen := strings.HasSuffix(path, "annotations") || strings.HasSuffix(path, "abels") || strings.HasSuffix(path, "elector")
	switch {
	case chosen || !plainKey.MatchString(key):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}
