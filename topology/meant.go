package topology

import (
	"fmt"
	"slices"
	"strings"
)

const nobody = "no node has the label "

// nobodyHas is what is said of a key that no node has, and of the label that may be
// meant.
func nobodyHas(key, label string) string {
	text := nobody + key + ": nobody is in a unit of it; "
	if label != "" {
		return text + "did you mean " + label + "? Mend the key, or label the nodes"
	}
	return text + "mend the key, or label the nodes"
}

// KeyOfNobody is what the problems say of a key that no node has; "" for nothing.
func (v *ServiceView) KeyOfNobody() string {
	for _, p := range v.Problems {
		if strings.HasPrefix(p.Text, nobody) {
			return p.Text
		}
	}
	return ""
}

// meant is how an annotation that is malformed is written well, in quotes: of
// the keys that are in it, where it is nothing but those; else of a key that
// stands for any.
func meant(annotation *string) string {
	const example = `'["site"]'`
	if annotation == nil || len(*annotation) > 2*shortened {
		return example
	}
	words := strings.FieldsFunc(*annotation, func(r rune) bool { return strings.ContainsRune(" \t\n,;[]{}'\"", r) })
	others := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == AnyNode })
	if len(others) == 0 || len(words) > maxKeys || slices.ContainsFunc(others, func(w string) bool { return !isLabelKey(w) }) {
		return example
	}
	if len(others) < len(words) { // it may only come last
		others = append(others, AnyNode)
	}
	for i, w := range others {
		others[i] = fmt.Sprintf("%q", w)
	}
	return "'[" + strings.Join(others, ", ") + "]'"
}
