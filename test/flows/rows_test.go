package flows

import "slices"

// everyState is what may be known of a Service's endpoints.
var everyState = []string{
	"here mate far", "here", "mate far", "far", // ready: everywhere, here, elsewhere
	"here~", "mate~ far~", // all terminate
	"here~ mate far", "here mate~ far~", // some do
	"", "here? mate?", "here? mate far", "here! mate!", "here! mate",
}

// someStates are those where policies differ.
var someStates = []string{"here mate far", "mate far", "here~ mate far"}

// keyedStates are those where keys differ.
var keyedStates = []string{
	"here mate far", "mate far", "far", "here~ mate far", "here~ mate~ far", "here~ mate~ far~", "here~", "here? mate? far", "far~", "",
}

// services are those of the table.
func services() (list []*service) {
	add := func(s service, states ...string) {
		for _, state := range states {
			one := s
			one.number, one.ends = len(list), state
			list = append(list, &one)
		}
	}
	add(service{}, everyState...)
	add(service{internalLocal: true, externalLocal: true}, everyState...)
	add(service{internalLocal: true}, someStates...)
	add(service{externalLocal: true}, someStates...)
	add(service{affinity: true}, "here mate far", "mate far", "here")
	for _, last := range []bool{false, true} {
		add(service{affinity: true, outsideFirst: last, internalLocal: true, externalLocal: true}, someStates...)
		add(service{affinity: true, outsideFirst: last, internalLocal: true}, "here mate far", "here~ mate far")
		add(service{affinity: true, outsideFirst: last, externalLocal: true}, "here mate far", "here~ mate far")
	}
	add(service{ranges: true}, "here mate far", "")
	add(service{ranges: true, externalLocal: true}, "here mate far", "mate far")
	for _, keys := range []string{`["unit"]`, `["unit","*"]`} {
		add(service{keys: keys}, keyedStates...)
		add(service{keys: keys, internalLocal: true, externalLocal: true}, "here mate far", "mate far", "far", "here~ mate far", "")
		add(service{keys: keys, affinity: true}, "here mate far", "far")
		add(service{keys: keys, ranges: true}, "here mate far")
	}
	return list
}

// rows are the flows of the table, in its order.
func rows(list []*service) (all []flow) {
	each := func(s *service, to frontend, from ...place) {
		for _, p := range from {
			if p == itself && !slices.Contains(usable(ends(s.ends)), here) {
				continue // it is a pod as any other
			}
			for _, udp := range []bool{false, true} {
				for _, ipv6 := range []bool{false, true} {
					all = append(all, flow{s, to, p, udp, ipv6})
				}
			}
		}
	}
	for _, s := range list {
		if !s.ranges && !s.outsideFirst {
			each(s, clusterIP, places...)
		}
		if !s.ranges {
			each(s, nodePort, places...)
			each(s, externalIP, pod, host, farPod, outside)
		}
		each(s, vip, places...)
		if s.outsideFirst {
			each(s, clusterIP, places...)
		}
	}
	// What does not depend on endpoints.
	for _, s := range list[:1] {
		each(s, otherPort, pod, host, farPod, outside)
		each(s, nobodysIP, pod, host, farPod, outside)
		each(s, vipOfProxy, pod, host, farPod, otherNode)
		each(s, portElsewhere, pod, host, farPod, otherNode, outside)
		each(s, portLocalhost, host)
	}
	return all
}
