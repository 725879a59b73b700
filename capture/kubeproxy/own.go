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

// contents are what is known of a table.
type contents struct {
	chains []string   // its chains that are kube-proxy's
	jumps  []nft.Jump // rules of the others that lead there
	torn   bool       // there may be more of both
}

// removal decides over a table. Where a chain of somebody else marks packets for kube-proxy
// to masquerade, or nobody knows that none does, those two chains stay.
func (c contents) removal() (r removal) {
	stay := c.torn || slices.ContainsFunc(c.jumps, func(j nft.Jump) bool { return j.To == markMasq })
	stays := func(chain string) bool { return stay && (chain == markMasq || chain == postrouting) }
	for _, j := range c.jumps {
		if !stays(j.To) {
			r.entries = append(r.entries, j)
		}
	}
	for _, name := range c.chains {
		if !stays(name) {
			r.chains = append(r.chains, name)
		}
	}
	slices.Sort(r.chains)
	r.chains = slices.Compact(r.chains)
	return r
}
