package source

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gridmesh/gridmesh/internal/jsontype"
)

// misfit says which field of a document a type cannot hold, what it holds and
// what is wanted; where nothing is found, the decoder's word. Fields that do not
// exist are told elsewhere. What stands at a path of the document written says, where that
// is known.
func misfit[T any](raw []byte, err error, written func(path string) string) (field, text string) {
	var v any
	if utiljson.Unmarshal(raw, &v) != nil {
		return "", err.Error()
	}
	for m := range jsontype.Misfits(v, reflect.TypeFor[T](), nil) {
		if !m.Unknown {
			m.Written = written(m.Path)
			return m.Path, "it " + m.Text()
		}
	}
	return "", err.Error()
}

var lineOf = regexp.MustCompile(`\bline [0-9]+:`)

// inFile has what a decoder says of the lines of a document say those of its file, of
// which so many are before it.
func inFile(text string, before int) string {
	return lineOf.ReplaceAllStringFunc(text, func(found string) string {
		n, err := strconv.Atoi(strings.Trim(found, "line :"))
		if err != nil { // more than a file has
			return found
		}
		return fmt.Sprintf("line %d:", before+n)
	})
}
