package capture

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
)

// looked is conntrack as it is asked: each look takes a while, and may fail.
type looked struct {
	mu    sync.Mutex
	at    []time.Duration
	what  []string
	takes time.Duration
	err   error
	more  bool
}

func (l *looked) flows() *flows {
	begin := time.Now()
	f := newFlows(func(error) {})
	f.dial = func() (*nl.Conn, error) { return nl.NewConn(closed{}, 1), nil }
	f.forget = func(_ *nl.Conn, udp plan.UDPServing) (bool, error) {
		l.mu.Lock()
		l.at, l.what = append(l.at, time.Since(begin)), append(l.what, fmt.Sprint(udp))
		takes, more, err := l.takes, l.more, l.err
		l.mu.Unlock()
		time.Sleep(takes)
		return more, err
	}
	return f
}

// closed is a socket that nobody reads from.
type closed struct{ nl.Socket }

func (closed) Close() error { return nil }

func (l *looked) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var got []string
	for i, at := range l.at {
		got = append(got, fmt.Sprint(at, " ", l.what[i]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	l.at, l.what = nil, nil
}

func serving(frontend string, by ...string) plan.UDPServing {
	udp := plan.UDPServing{netip.MustParseAddrPort(frontend): nil}
	for _, e := range by {
		f := netip.MustParseAddrPort(frontend)
		udp[f] = append(udp[f], netip.MustParseAddrPort(e))
	}
	return udp
}

const one, two = "10.96.0.1:53", "10.96.0.2:53"

// The first change after a pause is looked for at once, and again a pause later, for a packet may be
// on its way while nobody can see its flow; those that come meanwhile are one look's, each as it was
// told last.
func TestPaceOfFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looked{}
		f := l.flows()
		f.tell(serving(one, "10.244.0.1:53"))
		l.expect(t, "the first", "0s map[10.96.0.1:53:[10.244.0.1:53]]")
		time.Sleep(time.Minute)
		l.expect(t, "again", "500ms map[10.96.0.1:53:[10.244.0.1:53]]")
		f.ended.Wait()
		f.tell(serving(one, "10.244.0.1:53"))
		l.expect(t, "after a pause", "1m0s map[10.96.0.1:53:[10.244.0.1:53]]")
		for i := range 100 {
			f.tell(serving(one, fmt.Sprintf("10.244.0.%d:53", i+1)))
			f.tell(serving(two, "10.244.0.9:53"))
			time.Sleep(time.Millisecond)
		}
		l.expect(t, "in the pause")
		time.Sleep(time.Minute)
		l.expect(t, "after it", "1m0.5s map[10.96.0.1:53:[10.244.0.100:53] 10.96.0.2:53:[10.244.0.9:53]]", "1m1s map[10.96.0.1:53:[10.244.0.100:53] 10.96.0.2:53:[10.244.0.9:53]]")
		f.tell(serving(one))
		l.expect(t, "nobody serves, and nothing is better")
		f.tell(serving(one, "10.244.0.1:53"))
		synctest.Wait()
		f.tell(serving(one))
		time.Sleep(time.Minute)
		l.expect(t, "nobody serves any more", "2m0.1s map[10.96.0.1:53:[10.244.0.1:53]]")
		f.ended.Wait()
	})
}

// A look that takes long is followed by a longer pause, which what is told anew does not wait for,
// once: nobody is left with an endpoint that is gone. Told again and again it waits.
func TestFlowsOfLongLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looked{takes: 800 * time.Millisecond} // and a pause of 8 s
		f := l.flows()
		f.tell(serving(one, "10.244.0.1:53"))
		time.Sleep(2 * time.Second)
		l.expect(t, "the first", "0s map[10.96.0.1:53:[10.244.0.1:53]]")
		f.tell(serving(two, "10.244.0.1:53"))
		f.tell(serving(two))
		time.Sleep(time.Second)
		l.expect(t, "nobody serves the other")
		f.tell(serving(two, "10.244.0.2:53"))
		time.Sleep(100 * time.Millisecond)
		f.tell(serving(two, "10.244.0.3:53"))
		time.Sleep(5 * time.Second)
		l.expect(t, "told anew", "3s map[10.96.0.2:53:[10.244.0.2:53]]")
		time.Sleep(time.Second)
		l.expect(t, "all, after the pause of the first", "8.8s map[10.96.0.1:53:[10.244.0.1:53] 10.96.0.2:53:[10.244.0.3:53]]")
		time.Sleep(time.Minute)
		l.expect(t, "again what was told", "17.6s map[10.96.0.2:53:[10.244.0.3:53]]")
		f.ended.Wait()
	})
}

// What one look does not finish is the next one's, after a pause. One that failed is tried
// again by Repair, later, and says why until it does.
func TestFlowsThatAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looked{more: true}
		f := l.flows()
		f.tell(serving(one, "10.244.0.1:53"))
		time.Sleep(2*flowsPause + time.Millisecond)
		l.expect(t, "there are more", "0s map[10.96.0.1:53:[10.244.0.1:53]]", "500ms map[10.96.0.1:53:[10.244.0.1:53]]", "1s map[10.96.0.1:53:[10.244.0.1:53]]")
		l.mu.Lock()
		l.more, l.err = false, unix.EPERM
		l.mu.Unlock()
		time.Sleep(flowsPause)
		l.expect(t, "it fails", "1.5s map[10.96.0.1:53:[10.244.0.1:53]]")
		f.ended.Wait()
		f.tell(serving(one, "10.244.0.2:53"))
		if err := f.again(); !errors.Is(err, unix.EPERM) {
			t.Errorf("said is %v", err)
		}
		l.expect(t, "at once")
		time.Sleep(longestPause)
		l.err = nil
		if err := f.again(); !errors.Is(err, unix.EPERM) {
			t.Errorf("said is %v", err)
		}
		f.ended.Wait()
		l.expect(t, "later, and again", "11.501s map[10.96.0.1:53:[10.244.0.2:53]]", "12.001s map[10.96.0.1:53:[10.244.0.2:53]]")
		if err := f.again(); err != nil {
			t.Errorf("said is %v", err)
		}
	})
}

// Who stops waits for no pause.
func TestFlowsStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looked{}
		f := l.flows()
		f.tell(serving(one, "10.244.0.1:53"))
		l.expect(t, "the first", "0s map[10.96.0.1:53:[10.244.0.1:53]]")
		f.tell(serving(one, "10.244.0.2:53"))
		f.stop()
		l.expect(t, "stopped")
		time.Sleep(time.Minute)
		f.tell(serving(one, "10.244.0.3:53"))
		l.expect(t, "told again", "1m0s map[10.96.0.1:53:[10.244.0.3:53]]")
		f.stop()
	})
}

// A list that is torn is read again. Of one that stays so what was told is forgotten, and
// there may be more.
func TestTornFlows(t *testing.T) {
	flow := nft.Attribute(ctaID, []byte{0, 0, 0, 7})
	flow = append(flow, tupleOf(ctaTupleOrig, "10.244.0.5:999", one)...)
	flow = append(flow, tupleOf(ctaTupleReply, "10.244.0.6:53", "10.244.0.5:999")...)
	for torn, want := range map[int]error{0: nil, 1: nil, 4: nil, 5: dump.ErrTorn, 9: dump.ErrTorn} {
		c, n := newConntrack(unix.NFNL_SUBSYS_CTNETLINK), 0
		c.each = func(_ *nl.Conn, _ asked, take func([]byte)) error {
			if take(flow); n < torn {
				n++
				return dump.ErrTorn
			}
			return nil
		}
		list, err := c.stale(nil, asked{family: unix.AF_INET}, serving(one, "10.244.0.7:53"))
		if len(list) != 1 || !errors.Is(err, want) {
			t.Errorf("torn %d times: %d flows, %v", torn, len(list), err)
		}
		if list, _ := c.stale(nil, asked{family: unix.AF_INET}, serving(one, "10.244.0.6:53")); len(list) != 0 {
			t.Errorf("torn %d times: a flow whose endpoint serves is stale", torn)
		}
		n = 0
		if more, err := c.forget(nil, plan.UDPServing{netip.MustParseAddrPort(one): {netip.MustParseAddrPort("10.244.0.6:53")}}); more != (want != nil) || err != nil {
			t.Errorf("torn %d times: more %v, %v", torn, more, err)
		}
	}
}

// tupleOf is a direction of a flow of UDP as conntrack tells it.
func tupleOf(kind uint16, src, dst string) []byte {
	from, to := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	port := func(kind uint16, n uint16) []byte { return nft.Attribute(kind, []byte{byte(n >> 8), byte(n)}) }
	ip := append(nft.Attribute(1, from.Addr().AsSlice()), nft.Attribute(ctaIPv4Dst, to.Addr().AsSlice())...)
	proto := slices.Concat(nft.Attribute(ctaProtoNum, []byte{unix.IPPROTO_UDP}), port(ctaProtoSrcPort, from.Port()), port(ctaProtoDstPort, to.Port()))
	return nft.Attribute(kind|unix.NLA_F_NESTED, append(nft.Attribute(ctaTupleIP|unix.NLA_F_NESTED, ip), nft.Attribute(ctaTupleProto|unix.NLA_F_NESTED, proto)...))
}

// The kernel tells of the flows of the frontends that changed, and where these are many of
// those of UDP.
func TestQuestionsToConntrack(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	var list []plan.KernelFrontend
	for i := range 7 {
		list = append(list, plan.KernelFrontend{Frontend: udp(fmt.Sprintf("10.96.0.%d:53", i+1)), Tiers: tiers(false, "b")})
	}
	list = append(list, plan.KernelFrontend{Frontend: udp("[fd00:96::1]:53"), Tiers: tiers(true, "b")}, plan.KernelFrontend{Frontend: tcp("10.96.0.1:53"), Tiers: tiers(false, "b")})
	l.put(t, list...)
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	for _, f := range list {
		conn, answer := dial(t, l.a, f.Protocol.String(), "", f.AddrPort().String(), 10*time.Second)
		if conn == nil || !strings.HasPrefix(answer, "b ") {
			t.Fatalf("%s: %s", f.Frontend, answer)
		}
		open = append(open, conn)
	}
	told := func(udp plan.UDPServing) (dialled []string) {
		conn, err := nl.Dial(unix.NETLINK_NETFILTER, nil)
		must(t, err)
		defer conn.Close()
		for _, q := range questionsAbout(udp) {
			must(t, newConntrack(unix.NFNL_SUBSYS_CTNETLINK).each(conn, q, func(item []byte) {
				_, flow, isUDP := parseFlow(item)
				dialled = append(dialled, map[bool]string{true: "", false: "TCP "}[isUDP]+flow.Dialled.String())
			}))
		}
		slices.Sort(dialled)
		return dialled
	}
	some, many := plan.UDPServing{}, plan.UDPServing{}
	for i, f := range list[:8] {
		many[f.AddrPort()] = f.Tiers[1]
		if i == 1 || i == 7 {
			some[f.AddrPort()] = f.Tiers[1]
		}
	}
	if got := fmt.Sprint(told(some)); got != "[10.96.0.2:53 [fd00:96::1]:53]" {
		t.Errorf("asked for two frontends, told of %s", got)
	}
	if got := told(many); len(got) != 8 || strings.Contains(fmt.Sprint(got), "TCP") {
		t.Errorf("asked for eight frontends, told of %v", got)
	}
	if got := fmt.Sprint(told(serving(one))); got != "[]" {
		t.Errorf("asked for one that nobody serves, told of %s", got)
	}
}

// Where conntrack cannot be asked the kernel path serves, and that is a finding, until it
// can. Nothing that is written waits for a look.
func TestConntrackThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	inspect := l.Inspector()
	found := func() (kinds []FindingKind) {
		t.Helper()
		list, err := inspect()
		must(t, err)
		for _, f := range list {
			if kinds = append(kinds, f.Kind); !strings.Contains(f.Text, "modprobe nf_conntrack_netlink") {
				t.Errorf("found %s", f.Text)
			}
		}
		return kinds
	}
	there := l.flows.forget
	l.flows.forget = newConntrack(0x7f).forget // which no kernel has
	dns := plan.KernelFrontend{Frontend: udp("10.96.0.1:53"), Tiers: tiers(false, "b")}
	l.put(t, dns)
	conn, answer := dial(t, l.a, "udp", "", "10.96.0.1:53", 10*time.Second)
	if conn == nil || !strings.HasPrefix(answer, "b ") {
		t.Fatal(answer)
	}
	defer conn.Close()
	l.flows.ended.Wait()
	dns.Tiers = tiers(false, "far")
	l.put(t, dns)
	for range 2 {
		if repaired, err := l.Repair(); repaired || err != nil {
			t.Errorf("repaired %v, %v", repaired, err)
		}
	}
	if got := fmt.Sprint(found()); got != "[conntrack]" {
		t.Errorf("found %s", got)
	}
	if other, answer := dial(t, l.a, "udp", "", "10.96.0.1:53", 10*time.Second); other == nil || !strings.HasPrefix(answer, "far ") {
		t.Errorf("a new flow: %s", answer)
	} else {
		defer other.Close()
	}
	l.flows.mu.Lock()
	l.flows.forget, l.flows.rest, l.flows.soon = there, time.Time{}, time.Time{} // time has passed
	l.flows.mu.Unlock()
	if _, err := l.Repair(); err != nil {
		t.Error(err)
	}
	l.flows.ended.Wait()
	if got := found(); len(got) > 0 {
		t.Errorf("it can be asked, and found is %v", got)
	}
	if answer := ask(conn, 10*time.Second); !strings.HasPrefix(answer, "far ") {
		t.Errorf("the open flow: %s", answer)
	}
}

// What cannot be looked at beside the rules is a finding until it can, and no fault of theirs:
// of a node whose rules are not whole load balancers take their clients away.
func TestALookThatFailsIsNoFaultOfTheRules(t *testing.T) {
	t.Parallel()
	for name, kernel := range map[string]*plan.Kernel{"kernel path": kernelConfig().Kernel, "none": nil} {
		cfg := kernelConfig()
		l := newKernelLab(t, cfg)
		cfg.Kernel = kernel
		c := starting(t, cfg, l.host)
		there := c.flows.forget
		c.flows.forget = func(*nl.Conn, plan.UDPServing) (bool, error) { return true, unix.EPERM }
		c.flows.tell(serving(one, "10.244.0.6:8080"))
		c.flows.ended.Wait()
		if _, err := c.Repair(); err != nil || !told(c, KernelLook, unix.EPERM.Error()) {
			t.Errorf("%s: %v, found %v", name, err, c.own.all())
		}
		c.flows.mu.Lock()
		c.flows.forget, c.flows.rest, c.flows.soon = there, time.Time{}, time.Time{} // time has passed
		c.flows.mu.Unlock()
		_, _ = c.Repair()
		c.flows.ended.Wait()
		if _, err := c.Repair(); err != nil || told(c, KernelLook, "") {
			t.Errorf("%s, it can be looked at: %v, found %v", name, err, c.own.all())
		}
	}
}

// A look that hangs holds nothing up that is written.
func TestNothingWaitsForConntrack(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	began, hangs := make(chan struct{}, 1), make(chan struct{})
	l.flows.forget = func(*nl.Conn, plan.UDPServing) (bool, error) {
		select {
		case began <- struct{}{}:
		default:
		}
		<-hangs
		return false, nil
	}
	dns := plan.KernelFrontend{Frontend: udp("10.96.0.1:53"), Tiers: tiers(false, "b")}
	l.put(t, dns)
	<-began
	dns.Tiers = tiers(false, "far")
	l.put(t, dns)
	apply(t, l.Capture, newCluster().serve("web", "10.96.0.2", "10.244.0.6").view(), false)
	if _, err := l.Repair(); err != nil {
		t.Error(err)
	}
	if !serves(t, "10.96.0.2:80") {
		t.Error("Envoy's part was not written")
	}
	close(hangs)
	l.flows.ended.Wait()
}
