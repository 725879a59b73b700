package kubeproxy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/proxy"
)

// kubeProxy is what kube-proxy keeps of one family, and is told as its informers
// tell it.
type kubeProxy struct {
	services  *proxy.ServiceChangeTracker
	endpoints *proxy.EndpointsChangeTracker
	ports     proxy.ServicePortMap
	ends      proxy.EndpointsMap
}

func newKubeProxy(family corev1.IPFamily) *kubeProxy {
	return &kubeProxy{
		services:  proxy.NewServiceChangeTracker(family, nil, nil),
		endpoints: proxy.NewEndpointsChangeTracker(family, node, nil, nil),
		ports:     proxy.ServicePortMap{}, ends: proxy.EndpointsMap{},
	}
}

// watched is what kube-proxy's informers let pass of Services and slices alike
// (cmd/kube-proxy/app/server.go).
func watched(labels map[string]string) bool {
	_, other := labels["service.kubernetes.io/service-proxy-name"]
	_, headless := labels["service.kubernetes.io/headless"]
	return !other && !headless
}

func (k *kubeProxy) service(was, is *corev1.Service) {
	if was != nil && !watched(was.Labels) {
		was = nil
	}
	if is != nil && !watched(is.Labels) {
		is = nil
	}
	if was != nil || is != nil {
		k.services.Update(was, is)
	}
}

func (k *kubeProxy) slice(was, is *discoveryv1.EndpointSlice) {
	switch {
	case is != nil && watched(is.Labels):
		k.endpoints.EndpointSliceUpdate(is, false)
	case was != nil && watched(was.Labels):
		k.endpoints.EndpointSliceUpdate(was, true)
	}
}

func (k *kubeProxy) sync() {
	k.ports.Update(k.services)
	k.ends.Update(k.endpoints)
}

// answers adds for each frontend who answers, and how: nftables/proxier.go's
// syncProxyRules, without its rules.
func (k *kubeProxy) answers(to map[string]string, zone string) {
	labels := map[string]string{corev1.LabelTopologyZone: zone}
	for name, port := range k.ports {
		cluster, local, _, any := proxy.CategorizeEndpoints(k.ends[name], port, node, labels)
		inside := verdict(cluster, any)
		if port.InternalPolicyLocal() {
			inside = verdict(local, any)
		}
		outside := "cluster " + verdict(cluster, any)
		if port.ExternalPolicyLocal() {
			outside += " local " + verdict(local, any)
		}
		tell := func(addr string, number int, what string) {
			to[fmt.Sprintf("%s %s:%d/%s", name.NamespacedName, addr, number, strings.ToLower(string(port.Protocol())))] = what
		}
		if port.SessionAffinityType() == corev1.ServiceAffinityClientIP {
			to[name.String()+" affinity"] = fmt.Sprint(port.StickyMaxAgeSeconds())
		}
		tell(port.ClusterIP().String(), port.Port(), inside)
		if port.NodePort() != 0 {
			unspecified := "0.0.0.0"
			if port.ClusterIP().To4() == nil {
				unspecified = "::"
			}
			tell(unspecified, port.NodePort(), outside)
		}
		for _, ip := range port.ExternalIPs() {
			tell(ip.String(), port.Port(), outside)
		}
		var sources []string
		for _, p := range port.LoadBalancerSourceRanges() {
			sources = append(sources, p.String())
		}
		slices.Sort(sources)
		for _, ip := range port.LoadBalancerVIPs() {
			tell(ip.String(), port.Port(), outside+" from "+fmt.Sprint(sources))
		}
	}
}

// health adds what load balancers are told.
func (k *kubeProxy) health(to map[string]string, family corev1.IPFamily) {
	ready := k.ends.LocalReadyEndpoints()
	for name, port := range k.ports.HealthCheckNodePorts() {
		to[fmt.Sprint(name, " health ", family)] = fmt.Sprint(port, " has ", ready[types.NamespacedName(name)])
	}
}

// verdict is who answers, or what is done with the packet.
func verdict(list []proxy.Endpoint, anywhere bool) string {
	var ends []string
	for _, ep := range list {
		ends = append(ends, ep.String())
	}
	slices.Sort(ends)
	switch {
	case len(ends) > 0:
		return fmt.Sprint(ends)
	case anywhere:
		return "drop"
	}
	return "refuse"
}
