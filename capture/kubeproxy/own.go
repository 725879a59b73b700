package kubeproxy

import (
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// ownNames are the chains of kube-proxy in tables of iptables, besides those of single
// Services. KUBE-FIREWALL, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT and KUBE-MARK-DROP are the kubelet's.
var ownNames = []string{
	Chain, "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", markMasq, postrouting, "KUBE-FORWARD", "KUBE-PROXY-FIREWALL", "KUBE-PROXY-CANARY",
}

// Chains that plugins of the pod network use, too: one marks what the other masquerades.
const markMasq, postrouting = "KUBE-MARK-MASQ", "KUBE-POSTROUTING"

// ofService reports whether a chain is that of a Service or of an endpoint.
func ofService(chain string) bool {
	return slices.ContainsFunc([]string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-EXT-", "KUBE-FW-", "KUBE-XLB-"}, func(p string) bool { return strings.HasPrefix(chain, p) })
}

// own reports whether a chain is kube-proxy's.
func own(chain string) bool { return slices.Contains(ownNames, chain) || ofService(chain) }

// removal is what goes of a table: first rules of others' chains that lead to those of
// kube-proxy, which takes them out of force at once; then the chains.
type removal struct {
	entries []nft.Jump
	chains  []string
}

// removalOf decides over a table by its chains, and by what leads where. Where a chain
// of somebody else marks packets for kube-proxy to masquerade, those two chains stay.
func removalOf(chains []string, jumps []nft.Jump) (r removal) {
	shared := slices.ContainsFunc(jumps, func(j nft.Jump) bool { return j.To == markMasq && !own(j.Chain) })
	stays := func(chain string) bool { return shared && (chain == markMasq || chain == postrouting) }
	for _, j := range jumps {
		if own(j.To) && !own(j.Chain) && !stays(j.To) {
			r.entries = append(r.entries, j)
		}
	}
	for _, c := range chains {
		if own(c) && !stays(c) {
			r.chains = append(r.chains, c)
		}
	}
	slices.Sort(r.chains)
	return r
}
