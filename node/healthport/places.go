package healthport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// Bounds of the ports: each costs a socket for each family of its Service.
const (
	mostPorts       = 1000
	mostOfNamespace = 500
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
	view     *topology.View
	asked    map[topology.ObjectKey]*topology.ServiceView // of those that have a port
	places   map[Place]Answer
	problems []topology.Problem
}

// Next takes a view, and reports whether Places or Problems may be others then.
func (x *Index) Next(v *topology.View) (changed bool) {
	if x.asked == nil {
		x.asked = map[topology.ObjectKey]*topology.ServiceView{}
	}
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
		switch owner, taken := owners[check.Port]; {
		case taken:
			x.problems = append(x.problems, problem(key, "%d is service %s's already, and load balancers are not answered for this one; give one of them another port", check.Port, owner))
			continue
		case ofNamespace[key.Namespace] == mostOfNamespace:
			x.problems = append(x.problems, problem(key, "%d other ports of this namespace are answered on this node, and more are not: load balancers are not answered for this one; remove some", mostOfNamespace))
			continue
		case len(owners) == mostPorts:
			x.problems = append(x.problems, problem(key, "%d other ports are answered on this node, and more are not: load balancers are not answered for this one; remove some", mostPorts))
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
