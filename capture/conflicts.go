package capture

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Finding is something on the node that breaks the capture or is broken by it.
type Finding struct {
	Kind FindingKind `json:"kind"`
	Text string      `json:"text"` // what was found, what it means, and the command that cures it
}

// FindingKind groups findings by what the agent does about them.
type FindingKind string

// The kinds of findings.
const (
	// KubeProxy rules, live or left over: the agent refuses to start.
	KubeProxy FindingKind = "kube-proxy"
	// PolicyEngine: NetworkPolicies would be bypassed; refused without
	// --allow-policy-bypass.
	PolicyEngine FindingKind = "policy-engine"
	// InputDrop: a host firewall that drops captured packets; reported.
	InputDrop FindingKind = "input-drop"
)

// Inspect looks for what cannot live beside the capture.
func Inspect() ([]Finding, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
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
		inspectChain(c, report)
	}
	for _, legacy := range []struct {
		path, restore string
		level, opt    int
	}{
		{"/proc/net/ip_tables_names", "iptables-legacy", unix.SOL_IP, unix.AF_INET},
		{"/proc/net/ip6_tables_names", "ip6tables-legacy", unix.SOL_IPV6, unix.AF_INET6},
	} {
		if legacyHas(legacy.path, legacy.opt, legacy.level, "KUBE-SERVICES") {
			report(KubeProxy, "%s holds chain KUBE-SERVICES: rules of kube-proxy (iptables) answer ClusterIPs before gridmesh can; stop kube-proxy, then run: kube-proxy --cleanup", legacy.restore)
		}
	}
	if links, err := netlink.LinkList(); err == nil {
		for _, l := range links {
			inspectLink(l.Attrs().Name, report)
		}
	}
	return found, nil
}

type reporter func(kind FindingKind, format string, args ...any)

func inspectChain(c *nftables.Chain, report reporter) {
	family := map[nftables.TableFamily]string{nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyINet: "inet"}[c.Table.Family]
	switch {
	case c.Table.Name == "kube-proxy":
		report(KubeProxy, "nftables table %s kube-proxy: its rules answer ClusterIPs before gridmesh can; stop kube-proxy, then run: nft delete table %s kube-proxy", family, family)
	case c.Name == "KUBE-SERVICES":
		report(KubeProxy, "nftables table %s %s holds chain KUBE-SERVICES: rules of kube-proxy (iptables) answer ClusterIPs before gridmesh can; stop kube-proxy, then run: kube-proxy --cleanup", family, c.Table.Name)
	case strings.HasPrefix(c.Name, "cali-"), strings.HasPrefix(c.Name, "KUBE-NWPLCY"), strings.HasPrefix(c.Name, "KUBE-POD-FW"), strings.HasPrefix(c.Table.Name, "kube-network-policies"):
		report(PolicyEngine, "nftables table %s %s belongs to a NetworkPolicy engine: traffic through a ClusterIP to a pod on the same node would bypass its FORWARD rules (docs/limits.md)", family, c.Table.Name)
	case c.Hooknum != nil && *c.Hooknum == *nftables.ChainHookInput && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop:
		report(InputDrop, "chain %s of nftables table %s %s drops by default in INPUT: captured packets are delivered there; accept packets with gridmesh's mark in it (docs/limits.md)", c.Name, family, c.Table.Name)
	}
}

func inspectLink(name string, report reporter) {
	switch name {
	case "kube-ipvs0":
		report(KubeProxy, "link kube-ipvs0 exists: kube-proxy (ipvs) owns the ClusterIPs; stop kube-proxy, then run: kube-proxy --cleanup")
	case "cilium_host", "weave":
		report(PolicyEngine, "link %s belongs to a network with its own NetworkPolicy engine; traffic through a ClusterIP on the same node would bypass it (docs/limits.md)", name)
	}
}

// legacyHas asks the old iptables interface, which nftables does not show.
// The tables are only asked for when the kernel names them, for asking loads
// the module.
func legacyHas(names string, domain, level int, chain string) bool {
	list, err := os.ReadFile(names)
	if err != nil || !bytes.Contains(list, []byte("nat")) {
		return false
	}
	fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	// linux/netfilter_ipv4/ip_tables.h: IPT_SO_GET_INFO 64, IPT_SO_GET_ENTRIES 65.
	const infoLen, sizeAt, headLen = 84, 80, 40
	info := make([]byte, infoLen)
	copy(info, "nat")
	if !getsockopt(fd, level, 64, info) {
		return false
	}
	size := *(*uint32)(unsafe.Pointer(&info[sizeAt]))
	const most = 256 << 20
	if size > most {
		return false
	}
	entries := make([]byte, headLen+int(size))
	copy(entries, "nat")
	*(*uint32)(unsafe.Pointer(&entries[32])) = size
	return getsockopt(fd, level, 65, entries) && bytes.Contains(entries, []byte(chain))
}

func getsockopt(fd, level, opt int, buf []byte) bool {
	n := uint32(len(buf))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(opt),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&n)), 0)
	return errno == 0
}
