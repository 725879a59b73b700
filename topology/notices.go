package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/api/names"
)

// Unserved is what a Service asks for and no node does. Its ClusterIPs are
// served all the same.
type Unserved uint8

// The kinds of Unserved.
const (
	UnservedAffinity Unserved = 1 << iota
	UnservedNodePorts
	UnservedLoadBalancer
	UnservedExternalIPs
)

// unserved has for each kind the field that asks for it, and what to say.
var unserved = []struct {
	kind        Unserved
	field, text string
}{
	{UnservedAffinity, "spec.sessionAffinity", "ClientIP is not kept: connections of one client go to any endpoint of its tier; let clients hold their connection, or their state be shared"},
	{UnservedNodePorts, "spec.ports[].nodePort", "node ports are not served: nothing answers at the nodes' addresses; use the ClusterIP, or a hostPort"},
	{UnservedLoadBalancer, "spec.type", "LoadBalancer addresses are not served: what arrives for one on a node is left alone; use the ClusterIP, or a load balancer that dials pods"},
	{UnservedExternalIPs, "spec.externalIPs", "external addresses are not served: what arrives for one on a node is left alone; use the ClusterIP"},
}

// Notices say what the Service asks for and does not get. They are apart from
// its Problems: nobody made a mistake, and a cluster may be full of them.
func (s *ServiceView) Notices() (list []Problem) {
	say := func(field, text string) {
		list = append(list, Problem{Object: "service " + s.Key.String(), Field: field, Text: text})
	}
	if s.Service.Unaddressed() {
		say("spec.clusterIP", "is not there yet: the API server chooses it when the Service is made; until then nothing leads to its endpoints, and no tiers are shown. To see them, give it an address here")
	}
	for _, u := range unserved {
		if s.Service.Unserved&u.kind != 0 && s.lacks(u.kind) {
			say(u.field, u.text)
		}
	}
	switch asked := s.Service.Datapath; {
	case asked != DatapathNone && s.Datapath == DatapathNone:
		say("metadata.annotations["+names.Datapath+"]", "does nothing where there is one path alone")
	case asked == DatapathEnvoy && s.Datapath == DatapathKernel:
		say("metadata.annotations["+names.Datapath+"]", "is not followed while the cluster has NetworkPolicies, or nobody has said that it has none: what goes through Envoy passes by them")
	}
	return list
}

// lacks reports whether nothing serves what the Service asks for.
func (s *ServiceView) lacks(kind Unserved) bool {
	if kind != UnservedAffinity {
		return s.pathOutside() == PathNone
	}
	return slices.ContainsFunc(s.Frontends, func(f FrontendView) bool { return f.Path == PathEnvoy }) || s.Datapath == DatapathNone
}

// Unaddressed reports whether the Service has no ClusterIP though it is to have
// one, as in a manifest that no API server has seen. An address that is wrong is
// a Problem, and is not meant.
func (s *Service) Unaddressed() bool {
	return !s.Headless && !s.Foreign && len(s.ClusterIPs) == 0 &&
		!slices.ContainsFunc(s.Problems, func(p Problem) bool { return strings.HasPrefix(p.Field, "spec.clusterIPs") })
}

// mostOnUnknownNodes bounds the endpoints that UnknownNodeNotices tells of.
const mostOnUnknownNodes = 20

// UnknownNodeNotices tell of endpoints on nodes that the snapshot lacks: by keys nobody
// reaches them. A node may just have been removed, so it is no mistake for certain.
func (s *Snapshot) UnknownNodeNotices() (list []Problem) {
	if s.Partial || s.Nodes.Len() == 0 {
		return nil
	}
	for _, key := range s.Services.SortedKeys(ObjectKey.Compare) {
		entry, _ := s.Services.Get(key)
		for _, slice := range entry.Slices {
			for i := range slice.Endpoints {
				name := slice.Endpoints[i].Node
				if _, known := s.Nodes.Get(name); known || name == "" || entry.Service == nil {
					continue
				}
				if list = append(list, Problem{
					Object: "endpointslice " + slice.Key.String(), Field: fmt.Sprintf("endpoints[%d].nodeName", i),
					Text: fmt.Sprintf("%s is no node of this state, so the endpoint is in no unit; correct the name, or add the Node", name),
				}); len(list) == mostOnUnknownNodes {
					return list
				}
			}
		}
	}
	return list
}

// AllNotices returns every notice of the view, in order of the Services.
func (v *View) AllNotices() (list []Problem) {
	for _, s := range v.Sorted() {
		list = append(list, s.Notices()...)
	}
	return list
}
