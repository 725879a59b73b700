package convert

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// refused tells of values that the API server admits none of, as in a manifest that it
// has not seen yet, and that change what is served.
func refused(s *corev1.ServiceSpec, problem teller) {
	const narrow = "%q is not known, and is taken for Local: a typo opens nothing; write Cluster or Local"
	if !known(deref(s.InternalTrafficPolicy), "", corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal) {
		problem.refuse("spec.internalTrafficPolicy", narrow, *s.InternalTrafficPolicy)
	}
	if !known(s.ExternalTrafficPolicy, "", corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal) {
		problem.refuse("spec.externalTrafficPolicy", narrow, s.ExternalTrafficPolicy)
	}
	if !known(s.SessionAffinity, "", corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP) {
		problem.refuse("spec.sessionAffinity", "%q is not known, and no affinity is kept; write ClientIP or None", s.SessionAffinity)
	}
	if !known(s.Type, "", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer) {
		problem.refuse("spec.type", "%q is not known, and what else is written is served; write ClusterIP, NodePort, LoadBalancer or ExternalName", s.Type)
	}
	if s.ClusterIP != "" && len(s.ClusterIPs) > 0 && s.ClusterIP != s.ClusterIPs[0] {
		problem.refuse("spec.clusterIP", "is %q, and spec.clusterIPs begins with %q: an API server refuses the Service; give both the same, or leave one out", s.ClusterIP, s.ClusterIPs[0])
	}
}

func known[T ~string](value T, words ...T) bool { return slices.Contains(words, value) }

// family reports whether a slice's addressType is of IPv6, and whether it is one.
func family(kind discoveryv1.AddressType, problem teller) (ipv6, ok bool) {
	switch kind {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
		return kind == discoveryv1.AddressTypeIPv6, true
	case "":
		problem.refuse("addressType", "is missing, and is taken for IPv4; write IPv4 or IPv6")
		return false, true
	}
	problem.refuse("addressType", "%q is not known, and the slice's endpoints are left out; write IPv4 or IPv6", kind)
	return strings.HasSuffix(string(kind), "6"), false
}
