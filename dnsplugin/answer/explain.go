package answer

import (
	"fmt"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// Explain says, for people, why Lookup answers as it does.
func (x *Index) Explain(name string, ask Type) string {
	labels := strings.Split(name, ".")
	n := len(labels)
	a := x.Lookup(name, ask)
	if a.Kind == Absent {
		return "no Service has this name: others are asked, and if they do not answer it does not exist"
	}
	if n < 2 || n > 4 {
		return "no name of a Service, of a port or of a pod below one: others answer"
	}
	svc, ok := x.services.Get(labels[n-2] + "." + labels[n-1])
	switch {
	case !ok:
		return fmt.Sprintf("no Service %s/%s of a grid: others answer", labels[n-1], labels[n-2])
	case a.Kind == Foreign:
		return "a Service with a ClusterIP: others answer"
	case n == 3:
		return x.explainHost(svc, labels[1], labels[2], labels[0])
	case !svc.headless:
		return "the Service's ClusterIP"
	case len(svc.members) > 0:
		return fmt.Sprintf("the %d ready endpoints of %s", len(svc.members), x.unit())
	case !svc.exists:
		return "the Service has no ready endpoint: the name does not exist"
	}
	return fmt.Sprintf("%s has no ready endpoint of the Service, others have", x.unit())
}

func (x *Index) explainHost(svc *service, name, namespace, host string) string {
	_, known := svc.hosts[host]
	switch {
	case !known && svc.elsewhere[host]:
		return fmt.Sprintf("no such ordinal is ready in %s, in others it is", x.unit())
	case !known:
		return "no ready endpoint has this name"
	}
	entry, ok := x.snapshot.Services.Get(topology.ObjectKey{Namespace: namespace, Name: name})
	if !ok {
		return "the endpoint of this name"
	}
	keys := entry.Keys().List
	for ep := range ready(entry) {
		if len(keys) > 0 && x.sharesUnit(keys[0], ep.Node) && x.ordinal(keys, ep) == host {
			return fmt.Sprintf("the pod %s of %s", ep.Hostname, x.unit())
		}
	}
	return "the endpoint of this name"
}

// unit is this node's unit, in words.
func (x *Index) unit() string {
	vp := x.view.Viewpoint
	var values []string
	for _, key := range x.view.KeysInUse {
		if v, ok := vp.Values[key]; ok {
			values = append(values, key+"="+v)
		}
	}
	if len(values) == 0 {
		return fmt.Sprintf("node %s, which is in no unit", vp.Name)
	}
	return "this node's unit (" + strings.Join(values, ", ") + ")"
}
