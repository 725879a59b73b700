package topology

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var nextFree = regexp.MustCompile(`(?m)^type (\w+) struct \{ // the next free number is (\d+)$`)

// Fields are known by their numbers, in files that were written before, too: no two
// of a type have one, and each type says which is the next, above all that were ever used.
func TestNumbersOfTheEncoding(t *testing.T) {
	text, err := os.ReadFile("types.go")
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	for _, m := range nextFree.FindAllStringSubmatch(string(text), -1) {
		next[m[1]], _ = strconv.Atoi(m[2])
	}
	seen := map[reflect.Type]bool{}
	var look func(kind reflect.Type)
	look = func(kind reflect.Type) {
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		if kind.Kind() != reflect.Struct || kind.PkgPath() != reflect.TypeFor[Service]().PkgPath() || seen[kind] {
			return
		}
		seen[kind] = true
		taken := map[int]string{}
		for i := range kind.NumField() {
			f := kind.Field(i)
			look(f.Type)
			number, rest, _ := strings.Cut(f.Tag.Get("cbor"), ",")
			n, err := strconv.Atoi(number)
			switch {
			case err != nil || !strings.HasPrefix(rest, "keyasint"):
				t.Errorf("%s.%s has the tag %q; give it a number, as `cbor:\"%d,keyasint,omitempty\"`", kind.Name(), f.Name, f.Tag, next[kind.Name()])
			case taken[n] != "":
				t.Errorf("%s.%s and %s.%s both have the number %d", kind.Name(), taken[n], kind.Name(), f.Name, n)
			case n >= next[kind.Name()]:
				t.Errorf("%s.%s has the number %d, and the next free one is said to be %d; raise that beside the type", kind.Name(), f.Name, n, next[kind.Name()])
			}
			taken[n] = f.Name
		}
	}
	look(reflect.TypeFor[Service]())
	look(reflect.TypeFor[Slice]())
	look(reflect.TypeFor[Node]())
	if len(seen) < 9 || len(seen) != len(next) {
		t.Errorf("%d types are encoded, and %d say which number is the next: %v", len(seen), len(next), next)
	}
}
