package convert

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
