package topology

import (
	"fmt"
	"slices"
	"strings"
)

// absentKey is a key that no node has, and the label that may be meant; "" for none.
type absentKey struct{ key, label string }

// String is what is said of it.
func (k *absentKey) String() string {
	text := "no node has the label " + k.key + ": nobody is in a unit of it; "
	if k.label != "" {
		return text + "did you mean " + k.label + "? Mend the key, or label the nodes"
	}
	return text + "mend the key, or label the nodes"
}

// KeyOfNobody is what the problems say of the first key that no node has; "" for
// nothing.
func (v *ServiceView) KeyOfNobody() string {
	if v.absent == nil {
		return ""
	}
	return v.absent.String()
}

// meant is how an annotation that is malformed is written well, in quotes: of
// the keys that are in it, where it is nothing but those; else of a key that
// stands for any.
func meant(annotation *string) string {
	const example = `'["unit"]'`
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
