package kubeproxy

import (
	"slices"

	"github.com/gridmesh/gridmesh/capture/oldtables"
)

// OldTables is what the old iptables of one IP version holds, which nftables does not
// show.
type OldTables struct {
	Command string // that lists it, as iptables-legacy
	Holds   bool   // a chain of kube-proxy's
	Unread  error  // why that is not known
}

// Old looks at the old iptables of both IP versions, by what the kernel tells below
// procNet. What cannot be read is said, and not taken for empty.
func Old(procNet string) (list []OldTables) {
	for _, nat := range oldtables.Read(procNet, "nat") {
		list = append(list, OldTables{nat.Command, slices.Contains(nat.Chains, Chain), nat.Unread})
	}
	return list
}
