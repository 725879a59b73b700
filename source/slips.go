package source

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gridmesh/gridmesh/internal/jsontype"
	"github.com/gridmesh/gridmesh/internal/near"
)

// words are the names of all fields of an object of each type, in small letters.
var words sync.Map

func wordsOf(t reflect.Type) []string {
	list, ok := words.Load(t)
	if !ok {
		all := map[string]bool{}
		addWords(all, map[reflect.Type]bool{}, t)
		list, _ = words.LoadOrStore(t, slices.Sorted(maps.Keys(all)))
	}
	return list.([]string)
}

func addWords(all map[string]bool, seen map[reflect.Type]bool, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return
	}
	seen[t] = true
	for name, field := range jsontype.Fields(t) {
		all[strings.ToLower(name)] = true
		addWords(all, seen, field)
	}
}

// isSlip reports whether a field that does not exist is nearly one of an object's, wherever that
// has its place: else it may be of a newer version.
func isSlip(words []string, path string) bool {
	word := strings.ToLower(path[strings.LastIndex(path, ".")+1:])
	slips := 0
	if n := len(word); n >= 4 {
		slips = min(2, 1+n/10)
	}
	return slices.ContainsFunc(words, func(w string) bool { return near.Slips(word, w, slips) <= slips })
}
