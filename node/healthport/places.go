package healthport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// Place is where load balancers ask: a port of the node, of one family.
type Place struct {
	Port uint16
	IPv6 bool
}

// network is the family's in the words of package net.
func (p Place) network() string {
	if p.IPv6 {
		return "tcp6"
	}
	return "tcp4"
}

// Answer is what they are told: how many endpoints of this node and family the
// Service has for clients from outside.
type Answer struct {
	Service topology.ObjectKey
	Local   int
}

// Index keeps the places of a view as views go by, so that a change of one Service
// does not walk all of them.
type Index struct {
	own      map[uint16]string
	bounds   Bounds
	view     *topology.View
	asked    map[topology.ObjectKey]*topology.ServiceView // of those that have a port
	places   map[Place]Answer
	problems []topology.Problem
}

// NewIndex makes an Index. own are ports of the node's own programs, and whose they are:
// they are no Service's, also while such a program is away.
func NewIndex(own map[uint16]string, bounds Bounds) *Index {
	return &Index{own: own, bounds: bounds, asked: map[topology.ObjectKey]*topology.ServiceView{}}
}

// Next takes a view, and reports whether Places or Problems may be others then.
func (x *Index) Next(v *topology.View) (changed bool) {
	for key := range v.Changed(x.view) {
		_, was := x.asked[key]
		delete(x.asked, key)
		s, there := v.Service(key)
		is := there && s.HealthCheck != nil
		if is {
			x.asked[key] = s
		}
		changed = changed || was || is
	}
	x.view = v
	if changed {
		x.share()
	}
	return changed
}

// Places are those of the last view; what is returned is not changed any more.
func (x *Index) Places() map[Place]Answer { return x.places }

// Problems are of Services that ask for what they do not get.
func (x *Index) Problems() []topology.Problem { return x.problems }

// share gives each port to one Service: to who has it already, else to the eldest, for
// after a start nobody has one.
func (x *Index) share() {
	has := func(key topology.ObjectKey, port uint16) bool {
		return x.places[Place{Port: port}].Service == key || x.places[Place{Port: port, IPv6: true}].Service == key
	}
	order := slices.SortedFunc(maps.Keys(x.asked), func(a, b topology.ObjectKey) int {
		return cmp.Or(-compare(has(a, x.asked[a].HealthCheck.Port), has(b, x.asked[b].HealthCheck.Port)), x.asked[a].Service.CompareAge(x.asked[b].Service))
	})
	owners, ofNamespace, places := map[uint16]topology.ObjectKey{}, map[string]int{}, map[Place]Answer{}
	x.problems = nil
	for _, key := range order {
		check := x.asked[key].HealthCheck
		if why := x.refused(check.Port, owners, key.Namespace, ofNamespace); why != "" {
			x.problems = append(x.problems, problem(key, "%s", why))
			continue
		}
		owners[check.Port] = key
		ofNamespace[key.Namespace]++
		for _, ip := range x.asked[key].Service.ClusterIPs { // as in kube-proxy, of these families
			a := Answer{Service: key, Local: check.IPv4}
			if ip.Is6() {
				a.Local = check.IPv6
			}
			places[Place{check.Port, ip.Is6()}] = a
		}
	}
	x.places = places
}

// refused is why a port of a namespace is not answered, beside those that have theirs;
// "" where it is.
func (x *Index) refused(port uint16, owners map[uint16]topology.ObjectKey, namespace string, ofNamespace map[string]int) string {
	const unanswered = "load balancers are not answered for this one"
	switch owner, taken := owners[port]; {
	case x.own[port] != "":
		return fmt.Sprintf("%d is %s on this node, and %s; give it another port, and --service-node-port-range of the API server a range without that one", port, x.own[port], unanswered)
	case taken:
		return fmt.Sprintf("%d is service %s's already, and %s; give one of them another port", port, owner, unanswered)
	case ofNamespace[namespace] == x.bounds.ofNamespace:
		return fmt.Sprintf("%d other ports of this namespace are answered on this node, and more are not: %s; %s", x.bounds.ofNamespace, unanswered, x.bounds.cure())
	case len(owners) == x.bounds.ports:
		return fmt.Sprintf("%d other ports are answered on this node, and more are not: %s; %s", x.bounds.ports, unanswered, x.bounds.cure())
	}
	return ""
}

// compare orders false before true.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func problem(service topology.ObjectKey, format string, args ...any) topology.Problem {
	return topology.Problem{Object: "service " + service.String(), Field: "spec.healthCheckNodePort", Text: fmt.Sprintf(format, args...)}
}
