package plan

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/topology"
)

// The node ports of an API server without --service-node-port-range.
const firstNodePort, lastNodePort = 30000, 32767

// badPorts are ports that an API server would refuse of the grid's Service.
func (g *tracked) badPorts() (list []topology.Problem) {
	written := g.templates[g.fallback()]
	if written == nil {
		return nil // which is a problem of its own
	}
	template := written.alike.open()
	kind, ports := value[string](template, "type"), value[[]any](template, "ports")
	tell := func(field, format string, args ...any) {
		list = append(list, g.problem("spec.template.ports"+field, format, args...))
	}
	if len(ports) == 0 && kind != "ExternalName" && value[string](template, "clusterIP") != "None" {
		tell("", "is missing; give the ports, or clusterIP: None for a Service that gives names alone")
	}
	names, numbers := map[string]int{}, map[string]int{}
	for i, item := range ports {
		port, _ := item.(Object)
		at := func(field string) string { return fmt.Sprintf("[%d].%s", i, field) }
		number, protocol := integer(port, 0, "port"), cmp.Or(value[string](port, "protocol"), "TCP")
		if number < 1 || number > 65535 {
			tell(at("port"), "%v is no port; give a number from 1 to 65535", port["port"])
		}
		both := fmt.Sprint(number, protocol)
		if before, again := numbers[both]; again {
			tell(at("port"), "%d of %s is that of ports[%d], too; give another, or leave one out", number, protocol, before)
		} else {
			numbers[both] = i
		}
		name := value[string](port, "name")
		switch before, again := names[name]; {
		case name == "" && len(ports) > 1:
			tell(at("name"), "is missing, and of several ports each has one; give it one, as %q", "http")
		case name == "":
		case len(validation.IsDNS1123Label(name)) > 0:
			tell(at("name"), "%q is no name of a port: it has lower case letters, digits and '-', and 63 characters at most", name)
		case again:
			tell(at("name"), "%q is that of ports[%d], too; give another", name, before)
		default:
			names[name] = i
		}
		n := integer(port, 0, "nodePort")
		switch {
		case port["nodePort"] == nil || n == 0:
		case kind != "NodePort" && kind != "LoadBalancer":
			tell(at("nodePort"), "%d is for Services of type NodePort or LoadBalancer; leave it out, or set spec.template.type", n)
		case n < firstNodePort || n > lastNodePort:
			tell(at("nodePort"), "%d is not within %d-%d, the range of an API server without --service-node-port-range", n, firstNodePort, lastNodePort)
		}
	}
	return list
}
