package capture

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/capture/oldtables"
)

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

// oldPolicyEngines looks for policy engines where nftables shows nothing. Where that
// cannot be read, nobody has seen that there is none.
func oldPolicyEngines(procNet string, report reporter) error {
	var errs []error
	for _, filter := range oldtables.Read(procNet, "filter") {
		if slices.ContainsFunc(filter.Chains, ofPolicyEngine) {
			report(PolicyEngine, "table filter of %s belongs to a NetworkPolicy engine: traffic through a ClusterIP would bypass its FORWARD rules on the node of the client (docs/limits.md)", filter.Command)
		}
		if filter.Unread != nil {
			errs = append(errs, fmt.Errorf("read table filter of %s, which is in use: %w", filter.Command, filter.Unread))
		}
	}
	return errors.Join(errs...)
}
