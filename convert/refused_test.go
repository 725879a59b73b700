package convert

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gridmesh/gridmesh/topology"
)

// Words that the API server does not know are problems, and none opens a Service.
func TestUnknownWordsAreTold(t *testing.T) {
	for spec, want := range map[string]struct {
		internal, external bool   // narrowed to this node
		field              string // of the only problem; "" for none
	}{
		"{externalTrafficPolicy: Cluster, type: NodePort}":               {},
		"{externalTrafficPolicy: Local, type: NodePort}":                 {false, true, ""},
		"{internalTrafficPolicy: Cluster}":                               {},
		"{internalTrafficPolicy: Local}":                                 {true, false, ""},
		"{internalTrafficPolicy: local}":                                 {true, false, "spec.internalTrafficPolicy"},
		"{externalTrafficPolicy: local, type: NodePort}":                 {false, true, "spec.externalTrafficPolicy"},
		"{externalTrafficPolicy: Local, type: Nodeport}":                 {false, true, "spec.type"},
		"{sessionAffinity: ClientIp}":                                    {false, false, "spec.sessionAffinity"},
		"{sessionAffinity: None, type: ClusterIP}":                       {},
		"{clusterIP: 10.96.0.1, clusterIPs: [10.96.0.2]}":                {false, false, "spec.clusterIP"},
		"{clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::1']}":     {},
		"{clusterIPs: [10.96.0.1]}":                                      {},
		"{clusterIP: None, clusterIPs: [None]}":                          {},
		"{type: LoadBalancer, externalTrafficPolicy: '', ports: []}":     {},
		"{externalTrafficPolicy: Local, type: ClusterIP, ports: []}":     {},
		"{externalTrafficPolicy: Local, ports: [], sessionAffinity: ''}": {},
	} {
		got := Service(&corev1.Service{Spec: *read[corev1.ServiceSpec](t, spec)})
		external := got.Exposure != nil && got.Exposure.Local
		if got.InternalLocal != want.internal || external != want.external {
			t.Errorf("%s: internal %v, external %v", spec, got.InternalLocal, external)
		}
		if want.field == "" && len(got.Problems) > 0 || want.field != "" && (len(got.Problems) != 1 || got.Problems[0].Field != want.field) {
			t.Errorf("%s: %v, want one of %q", spec, got.Problems, want.field)
		}
	}
}

// A slice of an unknown addressType has no endpoints, and of a missing one those of IPv4.
func TestUnknownAddressType(t *testing.T) {
	for kind, want := range map[string]struct{ endpoints, problems int }{"IPv4": {1, 0}, "": {1, 1}, "ipv4": {0, 1}} {
		s := read[discoveryv1.EndpointSlice](t, "{metadata: {labels: {kubernetes.io/service-name: web}}, endpoints: [{addresses: [10.1.0.1]}]}")
		s.AddressType = discoveryv1.AddressType(kind)
		if got := Slice(s); len(got.Endpoints) != want.endpoints || len(got.Problems) != want.problems {
			t.Errorf("%q: %+v", kind, got)
		}
	}
}

// That an API server refuses an object is told beside any number of lesser problems; what it
// takes, and nobody serves, is no reason to refuse it.
func TestRefusalsAreToldFirst(t *testing.T) {
	s := read[discoveryv1.EndpointSlice](t, "{metadata: {labels: {kubernetes.io/service-name: web}}, addressType: IPv4, endpoints: [{addresses: [10.1.0.1]}]}")
	for range mostProblems + 1 {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Port: new(int32)})
	}
	refused := func() (n int) {
		for _, p := range Slice(s).Problems {
			if p.Loss == topology.LostValue {
				n++
			}
		}
		return n
	}
	if n, all := refused(), len(Slice(s).Problems); n != 0 || all != mostProblems {
		t.Errorf("%d problems, %d refused", all, n)
	}
	for i := range mostProblems + 1 {
		s.Endpoints[0].Addresses[0] = "nonsense"
		if n, all := refused(), len(Slice(s).Problems); n != min(i+1, mostProblems) || all != mostProblems {
			t.Errorf("%d endpoints: %d problems, %d refused", i+1, all, n)
		}
		s.Endpoints = append(s.Endpoints, s.Endpoints[0])
	}
}
