package source

import (
	"fmt"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

const (
	maxFault   = 300 // characters of a decoder's complaint
	maxUnknown = 10  // fields of one object that do not exist, and are named
)

// fault tells of what somebody hardly meant.
func (m *manifests) fault(object, field, format string, args ...any) {
	m.lost(topology.LostNothing, object, field, format, args...)
}

// lost tells of what is not in force as it is written.
func (m *manifests) lost(loss topology.Loss, object, field, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxFault {
		text = strings.ToValidUTF8(text[:maxFault], "") + "..."
	}
	m.problems = append(m.problems, topology.Problem{Object: object, Field: field, Text: text, Loss: loss})
}

// refuse tells of a value for which no API server takes the object.
func (m *manifests) refuse(at origin, field, format string, args ...any) {
	m.lost(topology.LostValue, at.String(), field, format, args...)
	m.refuses(at)
}

// refuses notes that no API server takes an object as it is. What one told it has taken.
func (m *manifests) refuses(at origin) {
	if at.live {
		return
	}
	if m.refused == nil {
		m.refused = map[origin]bool{}
	}
	m.refused[at] = true
}

// leave leaves an object out.
func (m *manifests) leave(at origin, field, format string, args ...any) {
	m.lost(topology.LostAll, at.String(), field, format, args...)
	m.leftOut = append(m.leftOut, at)
}
