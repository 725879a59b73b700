package capture

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

func TestMain(m *testing.M) {
	testkit.Namespaced(func() int {
		flag.Parse()
		// Whenever this machine booted.
		thisNode.young = func() bool { return false }
		if flag.Lookup("test.parallel").Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) { // nobody chose
			// Each has networks of its own, and waits for the kernel more than for a core.
			_ = flag.Set("test.parallel", "8")
		}
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	})
}

var podCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:244::/64")}

func config() plan.Config {
	c := plan.Default()
	c.PodCIDRs = slices.Clone(podCIDRs)
	c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}
	return c
}

// slowDisk is patience with a disk that is slow and no subject of a test.
const slowDisk = 10 * time.Minute

// testHost is the machine, with a state directory of its own.
func testHost(t testing.TB) Host {
	t.Helper()
	return Host{StateDir: t.TempDir(), ProcSys: "/proc/sys", Patience: slowDisk}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// started returns an installed capture in a network of its own.
func started(t *testing.T, cfg plan.Config) *Capture {
	t.Helper()
	testkit.NewNetwork(t)
	return starting(t, cfg, testHost(t))
}

// starting is what an agent does when it starts, in the present network.
func starting(t *testing.T, cfg plan.Config, host Host) *Capture {
	t.Helper()
	c, err := New(cfg, host)
	must(t, err)
	t.Cleanup(c.flows.stop)
	must(t, c.Install(cfg.ServiceCIDRs))
	must(t, c.Tune())
	return c
}

// apply is what an agent does with a view.
func apply(t *testing.T, c *Capture, v *topology.View, provisional bool) {
	t.Helper()
	must(t, c.Retract(v, provisional))
	must(t, c.Extend())
}

// cluster makes views of one node.
type cluster struct {
	*topology.Builder
	viewer *topology.Viewer
}

func newCluster() *cluster {
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "n0"})
	return &cluster{b, topology.NewViewer("n0", topology.Options{})}
}

func (c *cluster) view() *topology.View { return c.viewer.See(c.Build()) }

// serve adds a Service with one TCP port 80 and an endpoint at each address,
// or replaces it.
func (c *cluster) serve(name, ip string, endpoints ...string) *cluster {
	key := topology.ObjectKey{Namespace: "default", Name: name}
	c.SetService(&topology.Service{
		Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr(ip)},
		Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}},
	})
	slice := &topology.Slice{Key: key, Service: name, IPv6: strings.Contains(ip, ":"), Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: 8080}}}
	for _, e := range endpoints {
		slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: netip.MustParseAddr(e), Node: "n0", Ready: true, Serving: true})
	}
	c.SetSlice(slice)
	return c
}

// elements dumps the sets of the kernel: set name -> sorted keys.
func elements(t *testing.T) map[string][]string {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	dump := map[string][]string{}
	table := &nftables.Table{Name: rules.Name, Family: nftables.TableFamilyINet}
	for _, s := range rules.Inet(config()).Sets {
		list, err := conn.GetSetElements(nft.NewSet(table, s))
		must(t, err)
		for _, e := range list {
			dump[s.Name] = append(dump[s.Name], fmt.Sprintf("%x %v", e.Key, e.IntervalEnd))
		}
		slices.Sort(dump[s.Name])
	}
	return dump
}

// serves reports whether the kernel hands a frontend to Envoy.
func serves(t *testing.T, address string) bool {
	t.Helper()
	ap := netip.MustParseAddrPort(address)
	key := frontendElement(topology.Frontend{Addr: ap.Addr(), Port: ap.Port(), Protocol: topology.TCP}).Key
	return slices.Contains(elements(t)[rules.Serve.For(rules.FamilyOf(ap.Addr()))], fmt.Sprintf("%x false", key))
}

// everything is all that the capture may touch in a network.
func everything(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	conn, err := nftables.New()
	must(t, err)
	chains, err := conn.ListChains()
	must(t, err)
	for _, c := range chains {
		list, err := conn.GetRules(c.Table, c)
		must(t, err)
		fmt.Fprintf(&b, "chain %d %s %s: %d rules\n", c.Table.Family, c.Table.Name, c.Name, len(list))
	}
	for _, f := range []int{unix.AF_INET, unix.AF_INET6} {
		list, err := netlink.RuleList(f)
		must(t, err)
		fmt.Fprintln(&b, list)
		routes, err := netlink.RouteListFiltered(f, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		must(t, err)
		for _, r := range routes {
			if r.Table != unix.RT_TABLE_LOCAL && !r.Dst.IP.IsLinkLocalUnicast() { // the kernel's own, in its own time
				fmt.Fprintln(&b, r)
			}
		}
	}
	for _, key := range []string{"net/ipv4/tcp_early_demux", "net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables", "net/ipv4/conf/cni0/send_redirects"} {
		value, _ := os.ReadFile("/proc/sys/" + key) // some are there only with a bridge
		fmt.Fprintf(&b, "%s=%s", key, value)
	}
	lines := strings.Split(b.String(), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// ownProtocol is what rules and routes of the capture are known by.
const ownProtocol = 103

// ownRule is the rule of a family as ip(8) shows it.
func ownRule(cfg plan.Config, family int) *netlink.Rule {
	r := netlink.NewRule()
	mask := cfg.Mask
	r.Family, r.Mark, r.Mask, r.Table, r.Priority, r.Protocol = family, cfg.Mark, &mask, cfg.Table, 1, ownProtocol
	return r
}

// ownRoute is the route of a family.
func ownRoute(cfg plan.Config, family int) *netlink.Route {
	bits := map[int]int{unix.AF_INET: 32, unix.AF_INET6: 128}[family]
	all := &net.IPNet{IP: make(net.IP, bits/8), Mask: net.CIDRMask(0, bits)}
	return &netlink.Route{LinkIndex: links.Lo, Dst: all, Table: cfg.Table, Protocol: ownProtocol, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST}
}

// routed reports whether captured packets of a family are led to this node.
func routed(t *testing.T, cfg plan.Config, family int) bool {
	t.Helper()
	list, err := netlink.RuleList(family)
	must(t, err)
	routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: cfg.Table}, netlink.RT_FILTER_TABLE)
	must(t, err)
	ours := func(r netlink.Rule) bool {
		return r.Table == cfg.Table && r.Mark == cfg.Mark && r.Protocol == ownProtocol
	}
	return slices.ContainsFunc(list, ours) && len(routes) == 1 && routes[0].Type == unix.RTN_LOCAL && routes[0].LinkIndex == links.Lo
}

// addBridge makes a bridge that pods hang on.
func addBridge(t *testing.T, name string) {
	t.Helper()
	la := netlink.NewLinkAttrs()
	la.Name = name
	must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: la}))
	l, err := netlink.LinkByName(name)
	must(t, err)
	addr, err := netlink.ParseAddr("10.244.0.1/24")
	must(t, err)
	must(t, netlink.AddrAdd(l, addr))
	must(t, netlink.LinkSetUp(l))
}

// nftCommand runs nft(8), or skips the test where there is none.
func nftCommand(t *testing.T, input string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("SKIPPED: nft(8) is not installed; it is what reads the rules as text")
	}
	cmd := exec.CommandContext(context.Background(), "nft", args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("nft %v: %v\n%s", args, err, out)
	}
	return string(out)
}
