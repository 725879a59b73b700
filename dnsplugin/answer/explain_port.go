package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// ofPort says why a name that may be of a port, _port._proto.service.namespace, has
// the answer a; whose is what the Service's own name stands for, in words.
func (svc *service) ofPort(labels []string, a Answer, whose string) string {
	if len(labels) < 4 {
		return whose
	}
	wanted := strings.TrimPrefix(labels[0], "_") + "/" + strings.TrimPrefix(labels[1], "_")
	others := cmp.Or(strings.Join(svc.ports(), ", "), "none at all")
	switch headless := svc.Service.Headless; {
	case a.Result == Found && headless:
		return fmt.Sprintf("port %s of %s, where they have it", wanted, whose)
	case a.Result == Found:
		return fmt.Sprintf("port %s of %s", wanted, whose)
	case headless:
		return fmt.Sprintf("none of %s has a port %s; they have %s", whose, wanted, others)
	}
	return fmt.Sprintf("the Service has no port %s; it has %s", wanted, others)
}

// ports are those that names may be of, in words.
func (svc *service) ports() []string {
	found := map[string]bool{}
	add := func(name string, protocol topology.Protocol) {
		found[cmp.Or(name, "(unnamed)")+"/"+protocol.String()] = true
	}
	if !svc.Service.Headless {
		for _, p := range svc.Service.Ports {
			add(p.Name, p.Protocol)
		}
	}
	for _, m := range svc.Members {
		for _, p := range m.Ports {
			add(p.Name, p.Protocol)
		}
	}
	return slices.Sorted(maps.Keys(found))
}
