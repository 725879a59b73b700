package kubelet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// resolvConf is a pod's /etc/resolv.conf by its dnsPolicy and dnsConfig.
func (c *Config) resolvConf(pod *corev1.Pod) string {
	var servers, search, options []string
	policy := pod.Spec.DNSPolicy
	clusterFirst := policy == corev1.DNSClusterFirst && !pod.Spec.HostNetwork || policy == corev1.DNSClusterFirstWithHostNet
	if clusterFirst && len(c.ClusterDNS) > 0 {
		servers = c.ClusterDNS
		search = []string{pod.Namespace + ".svc." + c.Domain, "svc." + c.Domain, c.Domain}
		options = []string{"ndots:5"}
	}
	if d := pod.Spec.DNSConfig; d != nil {
		servers = append(servers[:len(servers):len(servers)], d.Nameservers...)
		search = append(search, d.Searches...)
		for _, o := range d.Options {
			text := o.Name
			if o.Value != nil {
				text += ":" + *o.Value
			}
			options = append(options, text)
		}
	}
	var b strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(search) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(search, " "))
	}
	if len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return b.String()
}

// hosts is a pod's /etc/hosts.
func (c *Config) hosts(pod *corev1.Pod, ips []string) string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
	names := hostname(pod)
	if pod.Spec.Subdomain != "" {
		names = fmt.Sprintf("%s.%s.%s.svc.%s %s", names, pod.Spec.Subdomain, pod.Namespace, c.Domain, names)
	}
	for _, ip := range ips {
		fmt.Fprintf(&b, "%s %s\n", ip, names)
	}
	for _, a := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s %s\n", a.IP, strings.Join(a.Hostnames, " "))
	}
	return b.String()
}
