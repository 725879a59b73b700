package capture

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

const validateMarks = "/proc/sys/net/ipv4/conf/all/src_valid_mark"

// A node that validates sources with the packet's mark serves its pods all the
// same, strictly validated: what a pod sends to a Service is taken, and so is
// the answer to what is sent in its name. Repair follows the sysctl, both ways.
func TestSourcesAreValidatedByTheirMarks(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	pod := addPod(t, node)
	endpoint := addEndpoint(t, node)
	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0o644))
	cfg := config()
	c := starting(t, cfg, testHost(t))
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	defer listen(t, cfg)()
	before := everything(t)
	dials := dialsAs(t, cfg, pod, endpoint)
	const ofLink = "/proc/sys/net/ipv4/conf/veth1/src_valid_mark"
	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/lo/src_valid_mark", []byte("1"), 0o644)) // says nothing
	for i, value := range []string{"0", "1", "0", "1 of a link", "0", "2"} {
		on, link := strings.CutSuffix(value, " of a link")
		for path, value := range map[string]string{validateMarks: map[bool]string{true: "0", false: on}[link], ofLink: map[bool]string{true: on, false: "0"}[link]} {
			must(t, os.WriteFile(path, []byte(value), 0o644))
		}
		if i > 0 && (link || value == "0") {
			c.looked = c.looked.Add(-allLinksEvery)
		}
		if repaired, err := c.Repair(); err != nil || repaired != (i > 0) {
			t.Errorf("src_valid_mark %s: repaired %v, %v", value, repaired, err)
		}
		for who, dial := range dials {
			if err := dial(); err != nil {
				t.Errorf("src_valid_mark %s, %s: %v", value, who, err)
			}
		}
		if again, err := c.Repair(); again || err != nil {
			t.Errorf("src_valid_mark %s, and again: %v, %v", value, again, err)
		}
		if value == "0" && everything(t) != before {
			t.Errorf("left behind:\n%s\nwanted:\n%s", everything(t), before)
		}
	}
	must(t, c.Remove())
	for _, f := range []int{unix.AF_INET, unix.AF_INET6} {
		list, err := netlink.RuleList(f)
		must(t, err)
		for i := range list {
			if list[i].Protocol == ownProtocol {
				t.Errorf("cleanup left %+v", list[i])
			}
		}
	}
}

// Where nobody can tell whether sources are validated by marks, that is an error,
// and the node serves as if they were, whichever of both it is.
func TestSourceValidationThatCannotBeRead(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	pod := addPod(t, node)
	endpoint := addEndpoint(t, node)
	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0o644))
	cfg, host := config(), testHost(t)
	host.ProcSys = t.TempDir()
	must(t, os.MkdirAll(host.ProcSys+"/net/ipv4/conf/all/src_valid_mark", 0o755)) // a directory
	for _, key := range []string{"net/ipv6", "net/bridge", "net/ipv4/tcp_early_demux", "net/ipv4/conf/cni0"} {
		must(t, os.Symlink("/proc/sys/"+key, host.ProcSys+"/"+key))
	}
	c := starting(t, cfg, host)
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	defer listen(t, cfg)()
	dials := dialsAs(t, cfg, pod, endpoint)
	for _, value := range []string{"0", "1"} {
		must(t, os.WriteFile(validateMarks, []byte(value), 0o644))
		if repaired, err := c.Repair(); repaired || err == nil || !strings.Contains(err.Error(), "net.ipv4.conf.all.src_valid_mark") {
			t.Errorf("src_valid_mark is %s: repaired %v, %v", value, repaired, err)
		}
		for who, dial := range dials {
			if err := dial(); err != nil {
				t.Errorf("src_valid_mark is %s, %s: %v", value, who, err)
			}
		}
	}
}

// Without a range of Services each of them is one, and that many rules of
// routing would cost every packet: then it is an error that names the cure.
func TestSourcesOfManyRanges(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	cfg := config()
	cfg.ServiceCIDRs = nil
	c := starting(t, cfg, testHost(t))
	k := newCluster()
	for i := range 65 {
		k.serve(fmt.Sprintf("s%d", i), fmt.Sprintf("10.96.%d.1", i), "10.244.0.5")
	}
	apply(t, c, k.view(), false)
	must(t, os.WriteFile(validateMarks, []byte("1"), 0o644))
	if repaired, err := c.Repair(); repaired || err == nil || !strings.Contains(err.Error(), "start with --service-cidr") {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	list, err := netlink.RuleList(unix.AF_INET)
	must(t, err)
	if len(list) != 4 { // the kernel's three
		t.Errorf("%d rules", len(list))
	}
}

// dialsAs are the connections whose sources are in question.
func dialsAs(t *testing.T, cfg plan.Config, pod *testkit.Network, endpoint string) map[string]func() error {
	t.Helper()
	keep := net.Dialer{Timeout: 20 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 244, 0, 5)}, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		control := raw.Control(func(fd uintptr) {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(cfg.Own())))
		})
		return errors.Join(control, err)
	}}
	plain := net.Dialer{Timeout: 20 * time.Second}
	dial := func(d *net.Dialer, to string) error {
		conn, err := d.DialContext(t.Context(), "tcp", to)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	return map[string]func() error{
		"the pod":         func() error { return pod.Do(func() error { return dial(&plain, web) }) },
		"the node":        func() error { return dial(&plain, web) },
		"in a pod's name": func() error { return dial(&keep, endpoint) },
	}
}

// addEndpoint adds a server on another node, which has a route back to the
// pods of this one.
func addEndpoint(t *testing.T, node *testkit.Network) string {
	t.Helper()
	other := node.Add()
	at := netip.MustParseAddrPort("192.168.7.2:8080")
	la := netlink.NewLinkAttrs()
	la.Name = "veth1"
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(other.NS))}))
	up := func(name, address string) netlink.Link {
		l, err := netlink.LinkByName(name)
		must(t, err)
		must(t, netlink.AddrAdd(l, parse(t, address)))
		must(t, netlink.LinkSetUp(l))
		return l
	}
	up("veth1", "192.168.7.1/24")
	must(t, other.Do(func() error {
		up("eth0", "192.168.7.2/24")
		_, pods, err := net.ParseCIDR("10.244.0.0/24")
		must(t, err)
		must(t, netlink.RouteAdd(&netlink.Route{Dst: pods, Gw: net.IPv4(192, 168, 7, 1)}))
		l, err := net.Listen("tcp", at.String())
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
		return err
	}))
	return at.String()
}
