package kubeproxy

import (
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// What is the kubelet's, a pod network's or a policy engine's stays, and so does what
// they lead to.
func TestRemoval(t *testing.T) {
	all := []string{
		"PREROUTING", "POSTROUTING", "KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-SVC-A", "KUBE-SEP-A",
		"KUBE-KUBELET-CANARY", "KUBE-FIREWALL", "KUBE-NWPLCY-DEFAULT", "CNI-HOSTPORT-SETMARK", "KUBE-SVC-A",
	}
	c := contents{chains: slices.DeleteFunc(all, func(name string) bool { return !own(name) }), jumps: []nft.Jump{
		{Chain: "PREROUTING", Handle: 2, To: "KUBE-SERVICES"},
		{Chain: "POSTROUTING", Handle: 3, To: "KUBE-POSTROUTING"},
	}}
	want := func(when string, entries []uint64, gone ...string) {
		t.Helper()
		r := c.removal()
		var handles []uint64
		for _, j := range r.entries {
			handles = append(handles, j.Handle)
		}
		if !slices.Equal(handles, entries) || !slices.Equal(r.chains, gone) {
			t.Errorf("%s: rules %v of chains %v go, want %v of %v", when, handles, r.chains, entries, gone)
		}
	}
	want("alone", []uint64{2, 3}, "KUBE-MARK-MASQ", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-SEP-A", "KUBE-SERVICES", "KUBE-SVC-A")
	c.torn = true
	want("there may be more", []uint64{2}, "KUBE-NODEPORTS", "KUBE-SEP-A", "KUBE-SERVICES", "KUBE-SVC-A")
	c.torn, c.jumps = false, append(c.jumps, nft.Jump{Chain: "CNI-HOSTPORT-SETMARK", Handle: 6, To: "KUBE-MARK-MASQ"})
	want("a pod network has its packets masqueraded by it", []uint64{2}, "KUBE-NODEPORTS", "KUBE-SEP-A", "KUBE-SERVICES", "KUBE-SVC-A")
}
