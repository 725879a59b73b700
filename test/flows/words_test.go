package flows

import (
	"fmt"
	"slices"
	"strings"
)

// place is where a client is, as seen from the node whose engine is looked at.
type place string

const (
	pod       place = "pod"        // of this node
	itself    place = "itself"     // the pod of this node that is the endpoint "here"
	host      place = "host"       // this node
	farPod    place = "far pod"    // of another node, led here
	otherNode place = "other node" // another node itself, led here
	outside   place = "outside"    // a machine that is no node, led here
)

var places = []place{pod, itself, host, farPod, otherNode, outside}

// ofNode reports whether a client is this node or a pod of it.
func (p place) ofNode() bool { return p == pod || p == itself || p == host }

// frontend is what is dialled of a Service.
type frontend string

const (
	clusterIP     frontend = "ClusterIP"
	otherPort     frontend = "ClusterIP, a port that it has not"
	nobodysIP     frontend = "an address of the range that no Service has"
	nodePort      frontend = "node port"
	portElsewhere frontend = "node port, at another address of the node"
	portLocalhost frontend = "node port, at localhost"
	externalIP    frontend = "external IP"
	vip           frontend = "load balancer"
	vipOfProxy    frontend = "load balancer, ipMode Proxy"
)

// who is an endpoint, and beyond what answers at an address that this node leads
// on, for nobody takes it.
type who string

const (
	here   who = "here" // on this node
	mate   who = "mate" // on another node of this node's unit
	far    who = "far"  // on a node of another unit
	beyond who = "beyond"
)

// condition is what a slice says of an endpoint.
type condition string

const (
	ready   condition = ""
	ending  condition = "~" // terminates, and serves
	ended   condition = "!" // terminates, and does not serve
	unready condition = "?"
)

type endpoint struct {
	who
	condition
}

// ends reads endpoints as the table writes them: "here~ mate far".
func ends(text string) (list []endpoint) {
	for _, f := range strings.Fields(text) {
		name := strings.TrimRight(f, "~!?")
		list = append(list, endpoint{who(name), condition(f[len(name):])})
	}
	return list
}

// service is a Service of every frontend, by TCP and UDP, in both families.
type service struct {
	number                       int
	internalLocal, externalLocal bool
	affinity                     bool
	outsideFirst                 bool // with affinity: other addresses are dialled before ClusterIPs
	ranges                       bool // loadBalancerSourceRanges: outside alone
	keys                         string
	ends                         string
	moved                        bool // mate's node is of another unit
	gone                         bool // it was deleted
}

func (s *service) name() string { return fmt.Sprint("s", s.number) }

// about is what the table says of it, besides its endpoints.
func (s *service) about() string {
	policy := map[bool]string{false: "Cluster", true: "Local"}
	list := []string{policy[s.internalLocal]}
	if s.internalLocal != s.externalLocal {
		list[0] = "internal " + policy[s.internalLocal] + ", external " + policy[s.externalLocal]
	}
	switch {
	case s.outsideFirst:
		list = append(list, "affinity (ClusterIP last)")
	case s.affinity:
		list = append(list, "affinity")
	}
	if s.ranges {
		list = append(list, "ranges")
	}
	if s.keys != "" {
		list = append(list, s.keys)
	}
	return strings.Join(list, ", ")
}

// flow is one client, dialling one frontend.
type flow struct {
	*service
	to   frontend
	from place
	udp  bool
	ipv6 bool
}

func (f flow) network() string {
	return map[bool]string{false: "tcp", true: "udp"}[f.udp] + map[bool]string{false: "4", true: "6"}[f.ipv6]
}

func (f flow) String() string {
	return fmt.Sprintf("%s (%s; %s): %s, %s, from %s", f.name(), f.about(), f.ends, f.to, f.network(), f.from)
}

// source is as whom an endpoint sees a client.
type source string

const (
	own  source = "own"  // the client's address
	node source = "node" // one of this node's
)

// What comes of dialling that is no answer.
const (
	refused = "refused"
	dropped = "dropped" // silence
)

// outcome is what may come of dialling again and again: answers, as "here own",
// or one of the words above. Where it is sticky it is always the same one.
type outcome struct {
	all    []string
	sticky bool
}

// answered reports whether somebody answers.
func (o outcome) answered() bool { return strings.Contains(o.all[0], " ") }

func just(what string) outcome { return outcome{all: []string{what}} }

func answer(by who, as source) string { return string(by) + " " + string(as) }

// by are answers of several as whom they see the client.
func by(list []who, as func(who) source) outcome {
	var o outcome
	for _, e := range list {
		o.all = append(o.all, answer(e, as(e)))
	}
	return o
}

// String is an outcome as the table has it: "here, mate: own".
func (o outcome) String() string {
	as := map[string][]string{}
	var order []string
	for _, a := range o.all {
		name, src, answered := strings.Cut(a, " ")
		if !answered {
			src = ""
		}
		if as[src] == nil {
			order = append(order, src)
		}
		as[src] = append(as[src], name)
	}
	slices.Sort(order)
	var parts []string
	for _, src := range order {
		text := strings.Join(as[src], ", ")
		if src != "" {
			text += ": " + src
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, "; ")
	if o.sticky {
		text = "one of " + text
	}
	return text
}
