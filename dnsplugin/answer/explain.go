package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// MoreThanFits is said behind why an answer is what it is, where it is truncated.
const MoreThanFits = "; there are more, which a message of DNS (64 KiB) has no room for: it is truncated"

// Explain says, for people, why Lookup answers as it does.
func (x *Index) Explain(name string, qtype Type) string {
	a := x.Lookup(name, qtype)
	why := x.explain(name, a)
	if a.Truncated {
		why += MoreThanFits
	}
	if len(a.SRV) > 0 && strings.Count(name, ".") < 3 { // it is of no port by name
		why = "the ports of " + why
	}
	if a.Result != Found || len(a.Addrs)+len(a.SRV) > 0 {
		return why
	}
	for _, other := range []Type{A, AAAA} {
		if len(x.Lookup(name, other).Addrs) > 0 {
			return fmt.Sprintf("NODATA: none of %s, but of %s: %s", records[qtype], records[other], why)
		}
	}
	return why
}

// records are what a type asks for, in words.
var records = map[Type]string{Other: "this type", A: "IPv4", AAAA: "IPv6", SRV: "SRV"}

// explain says why a name has the answer a.
func (x *Index) explain(name string, a Answer) string {
	labels := strings.Split(name, ".")
	n := len(labels)
	if a.Result == NotFound {
		return "no Service has this name: others are asked, and if they do not answer it does not exist"
	}
	if n < 2 || n > 4 {
		return "no name of a Service, of a port or of a pod below one: others answer"
	}
	svc, ok := x.services.Get(labels[n-2] + "." + labels[n-1])
	switch {
	case !ok:
		return x.explainForeign(topology.ObjectKey{Namespace: labels[n-1], Name: labels[n-2]})
	case a.Result == Passed:
		return "a Service with a ClusterIP: others answer"
	case n == 3 && a.Result == NXDomain && strings.HasPrefix(labels[0], "_"):
		return fmt.Sprintf("a port has two labels before the Service: %s._tcp or %s._udp", labels[0], labels[0])
	case n == 3:
		return x.explainHost(svc, labels[0])
	case !svc.Service.Headless && a.Result == Found && len(a.SRV) == 0 && svc.Service.Unaddressed():
		return "NODATA: the Service has no ClusterIP yet"
	case !svc.Service.Headless:
		return svc.ofPort(labels, a, "the Service's ClusterIP")
	case len(svc.Members) > 0:
		return svc.ofPort(labels, a, fmt.Sprintf("the %d ready endpoints of %s", len(svc.Members), x.whose(svc))) + leftOut(svc)
	case len(svc.Pods) == 0:
		return "the Service has no ready endpoint: the name does not exist"
	}
	if left := leftOut(svc); left != "" {
		return fmt.Sprintf("the Service's name stands for no endpoint of %s", x.unit()) + left
	}
	return fmt.Sprintf("%s has no ready endpoint of the Service, others have", x.unit())
}

// explainForeign says why a Service has no names here.
func (x *Index) explainForeign(key topology.ObjectKey) string {
	switch sv, ok := x.view.Service(key); {
	case ok && sv.Service.Foreign:
		return fmt.Sprintf("Service %s is left to others (ExternalName, another proxy's, or labelled headless): others answer", key)
	case ok && sv.Service.Headless:
		return fmt.Sprintf("Service %s is headless, of no grid: others answer", key)
	}
	return fmt.Sprintf("no Service %s of a grid: others answer", key)
}

// whose are the endpoints that a headless Service's name stands for.
func (x *Index) whose(svc *service) string {
	own, others := false, false
	for i := range svc.Pods {
		if p := &svc.Pods[i]; p.Reason == "" {
			own, others = own || p.Own, others || !p.Own
		}
	}
	switch {
	case !others:
		return x.unit()
	case own:
		return x.unit() + ", and of others"
	}
	return "others, for " + x.unit() + " has none"
}

// leftOut tells of this unit's ready endpoints that a rule leaves out, "" for none.
func leftOut(svc *service) string {
	n, reasons := 0, map[string]bool{}
	for i := range svc.Pods {
		if p := &svc.Pods[i]; p.Own && p.Reason != "" {
			n++
			reasons[p.Reason] = true
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; left out of this unit: %d, %s", n, strings.Join(slices.Sorted(maps.Keys(reasons)), "; "))
}

func (x *Index) explainHost(svc *service, host string) string {
	found := svc.has(host)
	for i := range svc.Pods {
		switch p := &svc.Pods[i]; {
		case found && p.Own && p.Ordinal == host:
			return fmt.Sprintf("the pod %s of %s", p.Hostname, x.unit())
		case !found && x.cfg.hides(p) && (p.Own && p.Ordinal == host || hostName(p.Endpoint) == host && (svc.Service.Headless || x.cfg.Services)):
			return "strict hides the pod: " + p.Reason
		}
	}
	switch {
	case found:
		return "the endpoint of this name"
	case svc.elsewhere[host]:
		return fmt.Sprintf("no such ordinal is ready in %s, in others it is", x.unit())
	}
	return "no ready endpoint has this name"
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
