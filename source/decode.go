package source

import (
	"errors"
	"fmt"
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
		m.unknown(at, err, passedOver(&obj, err))
	}
	if more := len(strict) - maxUnknown; more > 0 {
		m.lost(topology.LostField, at.String(), "", "has %d more fields that do not exist", more)
	}
	take(&obj)
}

// unknown tells of a field that does not exist. What an API server told may be newer, and is
// as it is meant.
func (m *manifests) unknown(at origin, err error, cure string) {
	field, text := "", err.Error()
	var in json.FieldError
	if errors.As(err, &in) {
		field, text = in.FieldPath(), "does not exist"
	}
	text += ", and is passed over; " + cure
	if at.live {
		loss := topology.LostNothing
		if strings.HasPrefix(field, "metadata.") { // no version has others there
			loss = topology.LostField
		}
		m.lost(loss, at.String(), field, "%s", text)
		return
	}
	m.refuse(topology.LostField, at, field, "%s", text)
}

// passedOver is what comes of a field that does not exist, and the cure. One
// that can only be meant to keep a Service's traffic in units leaves it open.
func passedOver(obj any, err error) string {
	s, isService := obj.(*corev1.Service)
	var at json.FieldError
	if !isService || !errors.As(err, &at) {
		return "correct it, or remove it"
	}
	path := at.FieldPath()
	word := path[strings.LastIndex(path, ".")+1:]
	keys := convert.MeansTopologyKeys(word)
	if !keys && near.Word(word, []string{"annotations"}) == "" {
		return "correct it, or remove it"
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
