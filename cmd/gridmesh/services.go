package main

import (
	"fmt"
	"slices"
	"strings"
)

// services names some of the state's Services, to choose from in place of one
// that is not there: first those whose names begin or end alike.
func (w *world) services(instead string) string {
	const most = 5
	var names []string
	for key := range w.snap.Services.All() {
		names = append(names, key.String())
	}
	if len(names) == 0 {
		return ": it has none"
	}
	slices.SortFunc(names, func(a, b string) int {
		if likeness := common(b, instead) - common(a, instead); likeness != 0 {
			return likeness
		}
		return strings.Compare(a, b)
	})
	text := ", in any namespace"
	if strings.Contains(instead, "/") {
		text = ""
	}
	text += "; it has " + strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// common is how many letters of a Service's key and a wanted name are the same
// at both ends; the namespace counts where it is given.
func common(key, name string) (n int) {
	if !strings.Contains(name, "/") {
		_, key, _ = strings.Cut(key, "/")
	}
	for n < len(key) && n < len(name) && key[n] == name[n] {
		n++
	}
	rest := min(len(key), len(name)) - n
	for i := 1; i <= rest && key[len(key)-i] == name[len(name)-i]; i++ {
		n++
	}
	return n
}
