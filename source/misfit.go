package source

import (
	"reflect"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gridmesh/gridmesh/internal/jsontype"
)

// misfit says which field of a document a type cannot hold, what it holds and
// what is wanted; where nothing is found, the decoder's word. Fields that do not
// exist are told elsewhere.
func misfit[T any](raw []byte, err error) (field, text string) {
	var v any
	if utiljson.Unmarshal(raw, &v) != nil {
		return "", err.Error()
	}
	for m := range jsontype.Misfits(v, reflect.TypeFor[T](), nil) {
		if !m.Unknown {
			return m.Path, "it " + m.Text()
		}
	}
	return "", err.Error()
}
