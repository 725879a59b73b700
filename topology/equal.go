package topology

import (
	"maps"
	"slices"
)

// Equal compares by content.
func (s *Service) Equal(o *Service) bool {
	return s.Key == o.Key && s.InternalLocal == o.InternalLocal && s.Headless == o.Headless && s.Foreign == o.Foreign &&
		s.GridKey == o.GridKey && s.Misspelt == o.Misspelt && s.Unserved == o.Unserved && s.Selector == o.Selector &&
		s.Affinity == o.Affinity && s.Created == o.Created && s.Datapath == o.Datapath && equalAt(s.TopologyKeys, o.TopologyKeys) && equalAt(s.Portion, o.Portion) && s.Exposure.equal(o.Exposure) &&
		slices.Equal(s.ClusterIPs, o.ClusterIPs) && slices.Equal(s.Ports, o.Ports) &&
		slices.Equal(s.Problems, o.Problems) && slices.Equal(s.Others, o.Others)
}

func (x *Exposure) equal(o *Exposure) bool {
	if x == nil || o == nil {
		return x == o
	}
	return x.Local == o.Local && x.HealthCheckNodePort == o.HealthCheckNodePort &&
		slices.Equal(x.ExternalIPs, o.ExternalIPs) && slices.Equal(x.LoadBalancers, o.LoadBalancers) && slices.Equal(x.Sources, o.Sources)
}

// Equal compares by content.
func (s *Slice) Equal(o *Slice) bool {
	return s.Key == o.Key && s.Service == o.Service && s.IPv6 == o.IPv6 &&
		slices.Equal(s.Ports, o.Ports) && slices.EqualFunc(s.Endpoints, o.Endpoints, equalEndpoint) &&
		slices.Equal(s.Problems, o.Problems)
}

// Equal compares by content.
func (n *Node) Equal(o *Node) bool { return n.Name == o.Name && maps.Equal(n.Labels, o.Labels) }

func equalEndpoint(a, b Endpoint) bool {
	return a.Addr == b.Addr && a.Node == b.Node && a.Hostname == b.Hostname &&
		a.Ready == b.Ready && a.Serving == b.Serving && a.Terminating == b.Terminating &&
		slices.Equal(a.HintZones, b.HintZones) && slices.Equal(a.HintNodes, b.HintNodes)
}

func equalAt[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
