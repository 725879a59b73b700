package refusal

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// The node looked from is a-1, of unit site=a, without a rack.
const here = "a-1"

func at(node string) topology.Endpoint {
	return topology.Endpoint{Node: node, Ready: true, Serving: true}
}

func notReady(node string) topology.Endpoint { return topology.Endpoint{Node: node} }

func closedBy(keys string) func(*topology.Service) {
	return func(s *topology.Service) { s.TopologyKeys = &keys }
}

func local(s *topology.Service) { s.InternalLocal = true }

// state has Service default/web, on port 80, in rack r of unit b and in unit a.
func state(mend func(*topology.Service), endpoints []topology.Endpoint) *topology.Snapshot {
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: here, Labels: map[string]string{"site": "a"}})
	b.SetNode(&topology.Node{Name: "a-2", Labels: map[string]string{"site": "a"}})
	b.SetNode(&topology.Node{Name: "b-1", Labels: map[string]string{"site": "b", "rack": "r"}})
	key := topology.ObjectKey{Namespace: "default", Name: "web"}
	s := &topology.Service{
		Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports: []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80}},
	}
	if mend != nil {
		mend(s)
	}
	b.SetService(s)
	addr := netip.MustParseAddr("10.1.0.0")
	for i := range endpoints {
		addr = addr.Next()
		endpoints[i].Addr = addr
	}
	b.SetSlice(&topology.Slice{Key: key, Service: "web", Ports: []topology.SlicePort{{Name: "http", Protocol: topology.TCP, Port: 8080}}, Endpoints: endpoints})
	return b.Build()
}

// Each cause that a state can have, with its cure: which Service, which endpoint
// came furthest, and which rule left it out.
func TestCauses(t *testing.T) {
	const site, rack = `["site"]`, `["site", "rack"]`
	for name, tc := range map[string]struct {
		mend      func(*topology.Service)
		endpoints []topology.Endpoint
		to        string
		want      Cause // of Why and Cure a part
	}{
		"an address of nobody": {
			nil, nil, "10.96.7.7:80",
			Cause{Why: "10.96.7.7 is in a range of Services, and of no Service of this state that is served here", Cure: "check the address: the Service may be gone"},
		},
		"another port": {
			nil,
			[]topology.Endpoint{at(here)},
			"10.96.0.1:81",
			Cause{Service: "default/web", Why: "has no port 81/tcp", Cure: "dial one that it has (80/tcp)"},
		},
		"no endpoint at all": {
			nil, nil, "10.96.0.1:80",
			Cause{Service: "default/web", Why: "has no endpoint at this port", Cure: "they have the port http: kubectl get endpointslices -n default -l kubernetes.io/service-name=web"},
		},
		"another unit's": {
			closedBy(rack),
			[]topology.Endpoint{at("b-1"), at("b-1")},
			"10.96.0.1:80",
			Cause{
				Service: "default/web", Tiers: "1 site=a, 2 rack=(no label here)", Endpoint: "10.1.0.1:8080", Node: "b-1", Rule: "topologyKeys",
				Why:  "10.96.0.1:80/tcp has no endpoint that this node may use: of 2, 10.1.0.1:8080 on b-1, is left out (other unit: site=b, here a; this node has no label rack), as are 1 more",
				Cure: `end topologyKeys with "*"`,
			},
		},
		"on no node": {
			closedBy(site),
			[]topology.Endpoint{at("")},
			"10.96.0.1:80",
			Cause{Service: "default/web", Tiers: "1 site=a", Endpoint: "10.1.0.1:8080", Rule: "topologyKeys", Why: "of 1, 10.1.0.1:8080, is left out", Cure: "give the endpoint the nodeName of the node that it is on"},
		},
		"the own one is not ready, and others' hide it not": {
			closedBy(site),
			[]topology.Endpoint{at("b-1"), notReady("a-2"), at("b-1")},
			"10.96.0.1:80",
			Cause{
				Service: "default/web", Tiers: "1 site=a", Endpoint: "10.1.0.2:8080", Node: "a-2", Rule: "terminating",
				Why:  "of 3, the one that came furthest, 10.1.0.2:8080 on a-2, is left out (not ready), and 2 before by topologyKeys (other unit: site=b, here a)",
				Cure: "kubectl get pods -n default -o wide --field-selector status.podIP=10.1.0.2,",
			},
		},
		"none is ready anywhere": {
			closedBy(`["site", "*"]`),
			[]topology.Endpoint{notReady("b-1")},
			"10.96.0.1:80",
			Cause{Service: "default/web", Tiers: "1 site=a, 2 *", Endpoint: "10.1.0.1:8080", Node: "b-1", Rule: "terminating", Why: "is left out (not ready)", Cure: "see why it is not ready"},
		},
		"on another node alone": {
			local,
			[]topology.Endpoint{at("a-2")},
			"10.96.0.1:80",
			Cause{Service: "default/web", Endpoint: "10.1.0.1:8080", Node: "a-2", Rule: "internalTrafficPolicy", Why: "(internalTrafficPolicy: Local)", Cure: "set spec.internalTrafficPolicy: Cluster"},
		},
		"a mistake in its keys": {
			closedBy("site"),
			[]topology.Endpoint{at("a-2")},
			"10.96.0.1:80",
			Cause{Service: "default/web", Endpoint: "10.1.0.1:8080", Node: "a-2", Rule: "malformed keys", Why: "topologyKeys is malformed", Cure: "mend metadata.annotations[topologyKeys]: "},
		},
	} {
		snap := state(tc.mend, tc.endpoints)
		to := netip.MustParseAddrPort(tc.to)
		got := *Of(snap, topology.See(snap, here, topology.Options{}), topology.Options{}, topology.Frontend{Addr: to.Addr(), Port: to.Port(), Protocol: topology.TCP})
		if !strings.Contains(got.Why, tc.want.Why) || !strings.Contains(got.Cure, tc.want.Cure) {
			t.Errorf("%s: %s; %s", name, got.Why, got.Cure)
		}
		if got.Rule != "" && !strings.HasSuffix(got.Cure, "; gridmesh view default/web shows every endpoint") {
			t.Errorf("%s: where to see more is not said: %s", name, got.Cure)
		}
		if got.Why, got.Cure = tc.want.Why, tc.want.Cure; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A line has the Service before the why, and tiers and rule behind it.
func TestString(t *testing.T) {
	for want, c := range map[string]Cause{
		"nobody has it":            {Why: "nobody has it", Cure: "look"},
		"service a/b: has no port": {Service: "a/b", Why: "has no port"},
		"service a/b: is far; tiers, none with a usable endpoint: 1 site=a (rule: topologyKeys)": {Service: "a/b", Why: "is far", Tiers: "1 site=a", Rule: "topologyKeys"},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
