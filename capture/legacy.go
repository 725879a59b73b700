package capture

import "github.com/gridmesh/gridmesh/capture/kubeproxy"

// inspectLegacy looks for kube-proxy where nftables shows nothing. What cannot
// be read is said, and not taken for empty.
func inspectLegacy(procNet string, report reporter) {
	for _, old := range kubeproxy.Old(procNet) {
		if old.Holds {
			report(KubeProxy, "%s holds chain %s: rules of kube-proxy (iptables) answer ClusterIPs before gridmesh can; stop kube-proxy, then run: kube-proxy --cleanup (docs/install.md)", old.Command, kubeproxy.Chain)
		}
		if old.Unread != nil {
			report(Unseen, "table nat of %s is in use and could not be read (%v): rules of kube-proxy in it would answer ClusterIPs before gridmesh can; look with: %s -t nat -S %s", old.Command, old.Unread, old.Command, kubeproxy.Chain)
		}
	}
}
