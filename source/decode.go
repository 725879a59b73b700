package source

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/topology"
)

// decode takes an object without the fields that do not exist, and says which.
func decode[T any](m *manifests, at origin, raw []byte, take func(*T)) {
	var obj T
	strict, err := json.UnmarshalStrict(raw, &obj)
	if err != nil {
		field, text := misfit[T](raw, err, m.original.below(at.place))
		m.leave(at, field, "cannot be read, and the object is left out: %s", text)
		return
	}
	if m.raw && at.live { // by an API server that may be newer, and knows them
		strict = nil
	}
	for _, err := range strict[:min(len(strict), maxUnknown)] {
		m.unknown(at, &obj, err)
	}
	if more := len(strict) - maxUnknown; more > 0 { // no newer version has as many
		m.lost(topology.LostField, at.String(), "", "has %d more fields that do not exist", more)
		m.refuses(at)
	}
	take(&obj)
}

// unknown tells of a field of an object that does not exist. It may be of a newer version, and
// what else is written counts; for a slip the object is refused, but for one that an API server
// told, which is as it is meant.
func (m *manifests) unknown(at origin, obj any, err error) {
	field, text := "", err.Error()
	var in json.FieldError
	if errors.As(err, &in) {
		field, text = in.FieldPath(), "does not exist"
	}
	cure := passedOver(obj, field)
	loss, slip := topology.LostRest, cure != remove || field == "" || isSlip(wordsOf(reflect.TypeOf(obj)), field)
	switch inMetadata := strings.HasPrefix(field, "metadata."); { // where no version has others
	case at.live && !inMetadata:
		loss = topology.LostNothing
	case slip || inMetadata:
		loss = topology.LostField
		m.refuses(at)
	}
	m.lost(loss, at.String(), field, "%s, and is passed over; %s", text, cure)
}

const remove = "correct it, or remove it"

// passedOver is the cure of a field that does not exist, and what comes of it. One
// that can only be meant to keep a Service's traffic in units leaves it open.
func passedOver(obj any, path string) string {
	s, isService := obj.(*corev1.Service)
	word := path[strings.LastIndex(path, ".")+1:]
	keys := convert.MeansTopologyKeys(word)
	if !isService || !keys && near.Word(word, []string{"annotations"}) == "" {
		return remove
	}
	text := "write metadata.annotations"
	if keys {
		text = fmt.Sprintf("the annotation is meant: write metadata.annotations[%s], as '[\"unit\"]'", names.TopologyKeys)
	}
	if _, kept := s.Annotations[names.TopologyKeys]; kept {
		return text
	}
	return text + fmt.Sprintf("; without the annotation %s, as it stands, the Service is open to every node", names.TopologyKeys)
}
