package peer

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// network is that of a unit's nodes: all of it is this machine's, in a network namespace of
// the tests' own. As loopback it would not do, for who calls from there is on the node.
var network = netip.MustParsePrefix("10.77.0.0/16")

var noNetwork error

func TestMain(m *testing.M) {
	testkit.Namespaced(func() int {
		noNetwork = ownNetwork()
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	})
}

func ownNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	whole := &net.IPNet{IP: network.Addr().AsSlice(), Mask: net.CIDRMask(network.Bits(), 32)}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: whole, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST})
}

func nodeAddr(i int) netip.Addr {
	b := network.Addr().As4()
	b[2], b[3] = byte(i/250), byte(1+i%250)
	return netip.AddrFrom4(b)
}

var testKey = []byte("a key of a unit that nobody guesses")

// lab is a unit with nodes on this machine, each with an address of its own.
type lab struct {
	t     *testing.T
	cfg   Config
	unit  Unit // but for Self
	log   testkit.Output
	nodes map[string]*testNode
	still atomic.Pointer[time.Time] // where it goes no further
}

// testNode is one of them, and who answers there.
type testNode struct {
	p        *Peer
	name     string
	registry *prometheus.Registry
	shift    atomic.Int64 // of its clock
	sent     *recorder
	stop     func()

	mu       sync.Mutex
	reported []vote.Reported
	reply    vote.Reply
	asked    [][]string
	answer   func(ctx context.Context, nodes []string) []vote.Result
	found    map[string]bool
	adopted  []Adopted

	elsewhere []string
}

func (n *testNode) Report(_ context.Context, r vote.Reported) vote.Reply {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reported = append(n.reported, r)
	return n.reply
}

func (n *testNode) Probe(ctx context.Context, nodes []string) []vote.Result {
	n.mu.Lock()
	n.asked = append(n.asked, nodes)
	answer := n.answer
	n.mu.Unlock()
	return answer(ctx, nodes)
}

func (n *testNode) Adopt(_ context.Context, from string, list []Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.adopted = append(n.adopted, Adopted{from, list})
}

func (n *testNode) Elsewhere(_ context.Context, node string, at netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.elsewhere = append(n.elsewhere, node+" "+at.String())
}

func (n *testNode) Local() map[string]bool { return n.found }

// Adopted is a list that a node was given.
type Adopted struct {
	From string
	List []Member
}

func (n *testNode) reports() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.reported)
}

// refused is how many requests were refused for a reason.
func (n *testNode) refused(why refusal) int {
	families, err := n.registry.Gather()
	if err != nil {
		panic(err) // what it gathers is ours
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); f.GetName() == "gridmesh_health_refused_total" && l[0].GetValue() == string(why) {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// newLab has nodes named a, b, c and so on, or n0, n1: with all of them started.
func newLab(t *testing.T, change func(c *Config), names ...string) *lab {
	t.Helper()
	if noNetwork != nil {
		t.Skipf("NOT TESTED: it needs a network namespace: %v", noNetwork)
	}
	l := &lab{t: t, cfg: Default(), nodes: map[string]*testNode{}, unit: Unit{View: "view 1", Addrs: map[string][]netip.Addr{}}}
	l.cfg.Port = uint16(testkit.FreePort(t))
	l.cfg.ReportTimeout, l.cfg.AskTimeout = 30*time.Second, 30*time.Second // none is about them
	if change != nil {
		change(&l.cfg)
	}
	for i, name := range names {
		l.unit.Addrs[name] = []netip.Addr{nodeAddr(i)}
	}
	for _, name := range names {
		l.start(name)
	}
	return l
}

// start starts a node, also one that was stopped.
func (l *lab) start(name string) *testNode {
	l.t.Helper()
	n := &testNode{name: name, registry: prometheus.NewRegistry(), sent: &recorder{}, answer: func(_ context.Context, nodes []string) (list []vote.Result) {
		for _, of := range nodes {
			list = append(list, vote.Result{Node: of, Answer: vote.Yes})
		}
		return list
	}}
	now := func() time.Time {
		at := time.Now()
		if still := l.still.Load(); still != nil {
			at = *still
		}
		return at.Add(time.Duration(n.shift.Load()))
	}
	n.p = newPeer(l.cfg, n, slog.New(slog.NewTextHandler(&l.log, nil)), newMetrics(n.registry), now)
	n.sent.RoundTripper, n.p.client.Transport = n.p.client.Transport, n.sent
	l.nodes[name] = n
	n.p.SetUnit(l.as(name))
	if err := n.p.SetKeys(testKey); err != nil {
		l.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(l.addr(name), l.cfg.Port).String())
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.p.Run(ctx, listener) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	})
	l.t.Cleanup(n.stop)
	return n
}

// as is the unit as a node knows it.
func (l *lab) as(name string) Unit {
	u := l.unit
	u.Self, u.Addrs = name, maps.Clone(u.Addrs)
	return u
}

func (l *lab) addr(name string) netip.Addr { return l.unit.Addrs[name][0] }

// recorder is on the way, and keeps what is sent.
type recorder struct {
	http.RoundTripper
	mu   sync.Mutex
	sent []recorded
}

type recorded struct {
	method, path, signature string
	body                    []byte
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.sent = append(r.sent, recorded{req.Method, req.URL.Path, req.Header.Get(header), body})
	r.mu.Unlock()
	req.Body = io.NopCloser(bytes.NewReader(body))
	return r.RoundTripper.RoundTrip(req)
}

func (r *recorder) last() recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[len(r.sent)-1]
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sent)
}

// put sends what was recorded, from an address to a node.
func (l *lab) put(from netip.Addr, to string, r recorded) (status int, body string) {
	l.t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: d.DialContext}}
	url := fmt.Sprintf("http://%s%s", netip.AddrPortFrom(l.addr(to), l.cfg.Port), r.path)
	req, err := http.NewRequestWithContext(l.t.Context(), r.method, url, bytes.NewReader(r.body))
	if err != nil {
		l.t.Fatal(err)
	}
	if r.signature != "" {
		req.Header.Set(header, r.signature)
	}
	resp, err := client.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// sign signs as who has a key.
func (r recorded) sign(raw []byte) recorded {
	r.signature = hex.EncodeToString(newKey(raw).ofRequest(r.method, r.path, r.body))
	return r
}

// report has a node report that all others are well.
func (l *lab) report(from, to string) error {
	l.t.Helper()
	_, err := l.nodes[from].p.Report(l.t.Context(), to, vote.Reported{Results: l.allWell(from)})
	return err
}

// allWell are a node's results about all others.
func (l *lab) allWell(from string) (list []vote.Result) {
	for _, name := range slices.Sorted(maps.Keys(l.unit.Addrs)) {
		if name != from {
			list = append(list, vote.Result{Node: name, Answer: vote.Yes})
		}
	}
	return list
}

// must is a report that arrives.
func (l *lab) must(from, to string) {
	l.t.Helper()
	was := l.nodes[to].reports()
	if err := l.report(from, to); err != nil || l.nodes[to].reports() != was+1 {
		l.t.Fatalf("%s to %s: %v, and %d reports", from, to, err, l.nodes[to].reports()-was)
	}
}
