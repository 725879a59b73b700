package capture

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/firewall"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// Finding is something on the node that breaks the capture or is broken by it.
type Finding struct {
	Kind FindingKind `json:"kind"`
	// Text is what was found, what it means, and the command that cures it. No value
	// that changes is in it: another text is another finding, and is told anew.
	Text string `json:"text"`
}

// FindingKind groups findings by what the agent does about them.
type FindingKind string

// The kinds of findings.
const (
	// KubeProxy rules, live or left over: the agent refuses to start.
	KubeProxy FindingKind = "kube-proxy"
	// PolicyEngine: NetworkPolicies would be bypassed; reported, and refused at a
	// first start where the operator wants that.
	PolicyEngine FindingKind = "policy-engine"
	// InputDrop: a host firewall that drops captured packets; reported.
	InputDrop FindingKind = "input-drop"
	// Unseen: what may answer ClusterIPs before the capture and cannot be read; reported.
	Unseen FindingKind = "unseen"
	// KernelTable: a table of the kernel path, which is off, serves on; reported.
	KernelTable FindingKind = "kernel-table"
	// Conntrack: UDP flows to endpoints that are gone are not forgotten; reported.
	Conntrack FindingKind = "conntrack"
	// TrackingFull: the table of connections has no room for new ones; reported.
	TrackingFull FindingKind = "conntrack-full"
	// TrackingLimits: the table of connections is smaller than wanted; reported.
	TrackingLimits FindingKind = "conntrack-limits"
	// AffinityFull: a Service has more clients than are remembered for one; reported.
	AffinityFull FindingKind = "affinity-full"
	// AffinityShare: a namespace has more Services with affinity than there is room for; reported.
	AffinityShare FindingKind = "affinity-share"
	// KernelPace: a Service changes more of the kernel path than its share of the time is; reported.
	KernelPace FindingKind = "kernel-pace"
	// KernelLook: what the kernel path follows beside its rules cannot be looked at; reported.
	KernelLook FindingKind = "kernel-look"
	// NodePortHome: node ports are served elsewhere than the default route leaves; reported.
	NodePortHome FindingKind = "node-port-home"
	// EnvoyPorts: somebody else listens where Envoy has to; reported.
	EnvoyPorts FindingKind = "envoy-ports"
)

// inspector looks for what cannot live beside the capture, for who calls it again and
// again: chains are read only where nftables changed since the last call. Beside an error
// it returns what was found of it; that is dump.ErrTorn where others change chains or
// links all the time. It is for one goroutine.
func inspector(input func() firewall.Packet) func() ([]Finding, error) {
	var chains []*nftables.Chain
	var refusing map[*nftables.Chain]bool
	var seen uint32
	var asked firewall.Packet
	return func() ([]Finding, error) {
		conn := nft.Open()
		defer conn.Close()
		gen, err := conn.Generation()
		if packet := input(); err == nil && (gen != seen || !packet.Equal(asked)) {
			chains, err = conn.Chains()
			var unread error
			refusing, unread = refusingInput(conn, chains, packet)
			if err = errors.Join(err, unread); err == nil {
				seen, asked = gen, packet
			}
		}
		found, unread := inspect(chains, refusing)
		return found, errors.Join(err, unread)
	}
}

// refusingInput are the chains of others at the input hook that refuse captured packets.
func refusingInput(conn *nft.Session, chains []*nftables.Chain, packet firewall.Packet) (map[*nftables.Chain]bool, error) {
	found := map[*nftables.Chain]bool{}
	var errs []error
	for _, c := range chains {
		if c.Hooknum == nil || *c.Hooknum != *nftables.ChainHookInput || c.Table.Name == rules.Name {
			continue
		}
		switch c.Table.Family { //nolint:exhaustive // the others have another traffic
		case nftables.TableFamilyIPv4, nftables.TableFamilyIPv6, nftables.TableFamilyINet:
		default:
			continue
		}
		refused, err := packet.Refused(conn, c)
		found[c], errs = refused, append(errs, err)
	}
	return found, errors.Join(errs...)
}

func inspect(chains []*nftables.Chain, refusing map[*nftables.Chain]bool) ([]Finding, error) {
	var found []Finding
	seen := map[string]bool{}
	report := func(kind FindingKind, format string, args ...any) {
		f := Finding{kind, fmt.Sprintf(format, args...)}
		if !seen[f.Text] {
			seen[f.Text] = true
			found = append(found, f)
		}
	}
	for _, c := range chains {
		inspectChain(c, refusing[c], report)
	}
	const procNet = "/proc/thread-self/net"
	for _, check := range fileChecks {
		check(procNet, report)
	}
	unread := oldPolicyEngines(procNet, report)
	list, err := links.Read("")
	for _, l := range list {
		inspectLink(l.Name, report)
	}
	return found, errors.Join(unread, err)
}

// takeOver is how the agent starts beside kube-proxy's rules.
const takeOver = "--take-over=kube-proxy, not with --datapath envoy (docs/migrate.md)"

// fileChecks read what the kernel tells below /proc of a network.
var fileChecks = []func(procNet string, report reporter){
	inspectLegacy,
}

type reporter func(kind FindingKind, format string, args ...any)

func inspectChain(c *nftables.Chain, refuses bool, report reporter) {
	family := map[nftables.TableFamily]string{nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyINet: "inet"}[c.Table.Family]
	switch {
	case c.Table.Name == "kube-proxy":
		report(KubeProxy, "nftables table %s kube-proxy: its rules answer ClusterIPs before gridmesh can; stop kube-proxy, then run: nft delete table %s kube-proxy (docs/install.md); or have the agent come before them, and remove them: "+takeOver, family, family)
	case c.Name == "KUBE-SERVICES":
		report(KubeProxy, "nftables table %s %s holds chain KUBE-SERVICES: rules of kube-proxy (iptables) answer ClusterIPs before gridmesh can; stop kube-proxy, then run: kube-proxy --cleanup (docs/install.md); or have the agent come before them, and remove them: "+takeOver, family, c.Table.Name)
	case ofPolicyEngine(c.Name), strings.HasPrefix(c.Table.Name, "kube-network-policies"):
		report(PolicyEngine, "nftables table %s %s belongs to a NetworkPolicy engine: traffic through a ClusterIP would bypass its FORWARD rules on the node of the client (docs/limits.md)", family, c.Table.Name)
	case refuses:
		how := "refuses in INPUT what its rules do not let in"
		if c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
			how = "drops by default in INPUT"
		}
		report(InputDrop, "chain %s of nftables table %s %s %s: captured packets are delivered there; accept packets with gridmesh's mark in it, or all from the pods' ranges (docs/limits.md)", c.Name, family, c.Table.Name, how)
	}
}

// ofPolicyEngine reports whether a chain is one of Calico's or kube-router's.
func ofPolicyEngine(chain string) bool {
	return strings.HasPrefix(chain, "cali-") || strings.HasPrefix(chain, "KUBE-NWPLCY") || strings.HasPrefix(chain, "KUBE-POD-FW")
}

func inspectLink(name string, report reporter) {
	switch name {
	case "kube-ipvs0":
		report(KubeProxy, "link kube-ipvs0 exists: kube-proxy (ipvs) owns the ClusterIPs; stop kube-proxy, then run: kube-proxy --cleanup (docs/install.md)")
	case "cilium_host", "weave":
		report(PolicyEngine, "link %s belongs to a network with its own NetworkPolicy engine; traffic through a ClusterIP would bypass it on the node of the client (docs/limits.md)", name)
	}
}
