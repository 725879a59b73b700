package topology_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

// wide is a Service of many ports, in one family or two, with endpoints on nodes
// n0, n1 and so on, ten on each; nodes are in sites of two.
type wide struct {
	*Builder
	Service
	endpoints int
}

var wideKey = ObjectKey{"default", "wide"}

func newWide(ports, endpoints int, protocol Protocol, ips ...string) *wide {
	w := &wide{NewBuilder(), Service{Key: wideKey}, endpoints}
	for _, ip := range ips {
		w.ClusterIPs = append(w.ClusterIPs, netip.MustParseAddr(ip))
	}
	for i := range ports {
		w.Ports = append(w.Ports, ServicePort{Name: fmt.Sprint("p", i), Protocol: protocol, Port: uint16(1 + i)})
	}
	return w
}

func (w *wide) build() *Snapshot {
	w.SetService(&w.Service)
	for n := range (w.endpoints + 9) / 10 {
		w.SetNode(&Node{Name: fmt.Sprint("n", n), Labels: map[string]string{"site": fmt.Sprint(n / 2)}})
	}
	var ports []SlicePort
	for _, p := range w.Ports {
		ports = append(ports, SlicePort{p.Name, p.Protocol, 8000 + p.Port})
	}
	for _, ip := range w.ClusterIPs {
		base := netip.AddrFrom4([4]byte{10, 1}).As16()
		if ip.Is6() {
			base = netip.MustParseAddr("fd00:1::").As16()
		}
		for at := 0; at < w.endpoints; at += 1000 {
			s := &Slice{Key: ObjectKey{"default", fmt.Sprint("wide-", ip.Is6(), at)}, Service: "wide", IPv6: ip.Is6(), Ports: ports}
			for i := at; i < min(at+1000, w.endpoints); i++ {
				base[14], base[15] = byte(i>>8), byte(i)
				s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.AddrFrom16(base).Unmap(), Node: fmt.Sprint("n", i/10), Ready: true, Serving: true})
			}
			w.SetSlice(s)
		}
	}
	return w.Build()
}

// targetsOf counts the endpoints of all tiers of all frontends of ClusterIPs, and
// the fewest that one has.
func targetsOf(sv *ServiceView) (all, fewest int) {
	fewest = 1 << 30
	for _, f := range sv.Frontends {
		n := 0
		for _, t := range f.Tiers {
			n += len(t.Endpoints)
		}
		all, fewest = all+n, min(fewest, n)
	}
	return all, fewest
}

// What real Services have has room, whoever looks; what one tenant writes into two
// objects takes no node's memory. No port goes dark for it, and no unit.
func TestPortsTimesEndpointsAreBounded(t *testing.T) {
	unit, anybody := `["site"]`, `["site","*"]`
	for name, c := range map[string]struct {
		wide *wide
		keys *string
		all  int // that the frontends of ClusterIPs lead to
		told bool
	}{
		"5000 endpoints, 10 ports":                  {newWide(10, 5000, TCP, "10.96.0.1"), nil, 50_000, false},
		"in two families":                           {newWide(10, 5000, UDP, "10.96.0.1", "fd00::1"), nil, 100_000, false},
		"1000 ports, 100 endpoints":                 {newWide(1000, 100, TCP, "10.96.0.1"), nil, 100_000, false},
		"300 ports, 1000 endpoints":                 {newWide(300, 1000, TCP, "10.96.0.1"), nil, 300 * (1 << 17 / 300), true},
		"300 ports, 1000 endpoints, closed":         {newWide(300, 1000, TCP, "10.96.0.1"), &unit, 300 * 20, false},
		"300 ports, 1000 endpoints, the unit's 1st": {newWide(300, 1000, TCP, "10.96.0.1"), &anybody, 300 * (1 << 17 / 300), true},
	} {
		c.wide.TopologyKeys = c.keys
		snap := c.wide.build()
		for _, opts := range []Options{{}, {Datapath: DatapathKernel}} {
			before := heapAlloc()
			view := See(snap, "n7", opts)
			t.Logf("%s: %.1f MiB", name, float64(heapAlloc()-before)/(1<<20))
			sv, _ := view.Service(wideKey)
			all, fewest := targetsOf(sv)
			if all != c.all || fewest != c.all/len(sv.Frontends) {
				t.Errorf("%s: %d endpoints, of one frontend %d; want %d", name, all, fewest, c.all)
			}
			if told := len(sv.Problems) == 1 && strings.HasPrefix(sv.Problems[0].String(), "service default/wide: spec.ports: has more ports times endpoints than the 131072 "); told != c.told || len(sv.Problems) > 1 {
				t.Errorf("%s: problems %v, want one: %v", name, sv.Problems, c.told)
			}
			if tiers := sv.Frontends[0].Tiers; c.keys != nil && len(tiers[0].Endpoints) != 20 {
				t.Errorf("%s: the unit has %d endpoints of 20", name, len(tiers[0].Endpoints))
			}
			if serving := sv.Frontends[0].Serving; len(serving) > 0 && c.told && len(serving) > 1<<17/300 {
				t.Errorf("%s: flows go on with %d endpoints", name, len(serving))
			}
			runtime.KeepAlive(view)
		}
	}
}

// Envoy holds the endpoints of all its UDP listeners, whoever uses them: two Services
// of 16 ports and 5000 endpoints would be 320 MiB. The unit's come first, and where
// the kernel serves UDP nothing is left out for it.
func TestEndpointsOfUDPListenersAreBounded(t *testing.T) {
	const most = 256
	unit, anybody := `["site"]`, `["site","*"]`
	for name, c := range map[string]struct {
		protocol Protocol
		keys     *string
		opts     Options
		each     int
	}{
		"closed":     {UDP, &unit, Options{}, 20},
		"open":       {UDP, &anybody, Options{}, most},
		"union":      {UDP, &anybody, Options{Reading: Union}, 5000}, // no keys, as the next
		"no keys":    {UDP, nil, Options{}, 5000},                    // refused; the cluster's DNS alone is not
		"TCP":        {TCP, &anybody, Options{}, 5000},
		"the kernel": {UDP, &anybody, Options{Datapath: DatapathAuto}, 5000},
	} {
		w := newWide(16, 5000, c.protocol, "10.96.0.1")
		w.TopologyKeys = c.keys
		snap := w.build()
		view := See(snap, "n7", c.opts)
		sv, _ := view.Service(wideKey)
		if all, fewest := targetsOf(sv); all != 16*c.each || fewest != c.each {
			t.Errorf("%s: %d endpoints, of one frontend %d; want %d of each", name, all, fewest, c.each)
		}
		if tiers := sv.Frontends[0].Tiers; sv.Keys.Mode != NoKeys && len(tiers[0].Endpoints) != 20 {
			t.Errorf("%s: the unit has %d endpoints of 20", name, len(tiers[0].Endpoints))
		}
		if told := len(sv.Problems) == 1 && strings.Contains(sv.Problems[0].String(), "has UDP ports of more endpoints than the 256 "); told != (c.each == most) || len(sv.Problems) > 1 {
			t.Errorf("%s: problems %v", name, sv.Problems)
		}
		left := Explain(snap, view, c.opts, wideKey)[sv.Frontends[0].Frontend]
		if c.each == most && (len(left) != 5000-most || left[0].Reason != "Envoy holds 256 endpoints of a UDP port at most, and others of the tier are kept") {
			t.Errorf("%s: it is explained of %d endpoints why they are in no tier, of %d: %+v", name, len(left), 5000-most, left[:min(1, len(left))])
		}
	}
}

// What UDP ports leave is other ports': of 20 of TCP and 10 of UDP with 5000
// endpoints nothing is left out for the Service's bound.
func TestWhatUDPLeavesIsOtherPorts(t *testing.T) {
	anybody := `["site","*"]`
	w := newWide(30, 5000, TCP, "10.96.0.1")
	for i := range 10 {
		w.Ports[i].Protocol = UDP
	}
	w.TopologyKeys = &anybody
	sv, _ := See(w.build(), "n7", Options{}).Service(wideKey)
	if all, fewest := targetsOf(sv); all != 20*5000+10*256 || fewest != 256 || len(sv.Problems) != 1 {
		t.Errorf("%d endpoints, of one frontend %d, want %d and 256; problems %v", all, fewest, 20*5000+10*256, sv.Problems)
	}
}

func heapAlloc() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Node ports and addresses besides ClusterIPs count as well, for the kernel holds
// endpoints for each of them; a load balancer's Service of 5000 endpoints has room.
func TestAddressesTimesEndpointsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		ports, endpoints, addresses int
		affinity                    uint32
		each                        int
	}{
		"a load balancer":           {10, 5000, 1, 0, 5000},
		"4000 addresses":            {1, 1000, 4000, 0, 2 << 17 / 4002},
		"4000 addresses, affinity":  {1, 1000, 4000, 3600, 2 * (1 << 17 / 3) / 4002},
		"131 ports, with affinity":  {131, 1000, 1, 3600, 1 << 17 / 3 / 2 / 131},
		"a load balancer, affinity": {2, 5000, 1, 3600, 5000},
	} {
		w := newWide(c.ports, c.endpoints, UDP, "10.96.0.1", "fd00::1")
		w.Exposure, w.Affinity = &Exposure{}, c.affinity
		for i := range w.Ports {
			w.Ports[i].NodePort = uint16(30000 + i)
		}
		for i := range c.addresses {
			w.Exposure.LoadBalancers = append(w.Exposure.LoadBalancers, netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}))
		}
		if c.addresses == 1 {
			w.Exposure.LoadBalancers = append(w.Exposure.LoadBalancers, netip.MustParseAddr("2001:db8::1"))
		}
		sv, _ := See(w.build(), "n7", Options{Datapath: DatapathKernel}).Service(wideKey)
		for _, o := range sv.Outside {
			if n := len(o.Tiers[0].Endpoints); n != c.each {
				t.Fatalf("%s: %s leads to %d endpoints, want %d", name, o.Frontend, n, c.each)
			}
			if first := sv.Outside[0]; o.PortName == first.PortName && o.Addr.Is4() && &o.Serving[0] != &first.Serving[0] {
				t.Fatalf("%s: %s holds the endpoints of its flows once more", name, o.Frontend)
			}
		}
		if told := len(sv.Problems) > 0; told != (c.each < c.endpoints) {
			t.Errorf("%s: %v", name, sv.Problems)
		}
	}
}

// Without a kernel path nobody keeps an endpoint, and so an endpoint counts once.
func TestAffinityThatNobodyKeepsCountsOnce(t *testing.T) {
	w := newWide(10, 5000, TCP, "10.96.0.1", "fd00::1")
	w.Affinity = 3600
	for path, bounded := range map[Datapath]bool{DatapathNone: false, DatapathKernel: true} {
		sv, _ := See(w.build(), "n7", Options{Datapath: path}).Service(wideKey)
		if n := len(sv.Frontends[0].Tiers[0].Endpoints); (n < 5000) != bounded {
			t.Errorf("%q: a port leads to %d endpoints", path, n)
		}
	}
}

// Each node keeps other endpoints, so that all are used, the same of each port; and
// one that comes or goes changes no more than itself and the one it takes the place of.
func TestNodesKeepOtherEndpoints(t *testing.T) {
	w := newWide(10, 200, TCP, "10.96.0.1")
	snap := w.build()
	kept := func(snap *Snapshot, node string) map[netip.Addr]bool {
		v := NewViewer(node, Options{})
		v.BoundTargets(200) // 20 of each port
		sv, _ := v.See(snap).Service(wideKey)
		var first map[netip.Addr]bool
		for _, f := range sv.Frontends {
			set := map[netip.Addr]bool{}
			for _, e := range f.Tiers[0].Endpoints {
				set[e.Addr.Addr()] = true
			}
			if first == nil {
				first = set
			}
			if len(set) != 20 || !reflect.DeepEqual(set, first) {
				t.Fatalf("%s keeps %d endpoints of %s, or others than of the first port", node, len(set), f.Frontend)
			}
		}
		return first
	}
	uses := map[netip.Addr]int{}
	for n := range 100 {
		for addr := range kept(snap, fmt.Sprint("node-", n)) {
			uses[addr]++
		}
	}
	most := 0
	for _, n := range uses {
		most = max(most, n)
	}
	if len(uses) != 200 || most > 25 { // 10 on average
		t.Errorf("100 nodes use %d of 200 endpoints, one of them %d nodes", len(uses), most)
	}
	before := kept(snap, "n7")
	for addr := range before {
		slice, _ := snap.Services.Get(wideKey)
		less := *slice.Slices[0]
		less.Endpoints = slices.DeleteFunc(slices.Clone(less.Endpoints), func(e Endpoint) bool { return e.Addr == addr })
		w.SetSlice(&less)
		after := kept(w.Build(), "n7")
		stay := 0
		for a := range after {
			if before[a] {
				stay++
			}
		}
		if stay != 19 {
			t.Errorf("without %s %d of the 19 others stay", addr, stay)
		}
	}
}

// The law, over random histories: bounded views are kept as they are made anew; they
// hold what unbounded ones hold, tier by tier, the nearest first, and no more than
// there is room for; a Problem and reasons say what is left out.
func TestBoundedViews(t *testing.T) {
	cut, whole := 0, 0
	for seed := range uint64(40) {
		opts := []Options{{}, {Reading: Union}, {Datapath: DatapathKernel}, {Outside: true}}[seed%4]
		most := 2 + int(seed%5)
		viewer := func() *Viewer {
			v := NewViewer("n0", opts)
			v.BoundTargets(most)
			v.BoundUDPTargets(1 + int(seed%3))
			return v
		}
		w, keeps := topologytest.New(seed), viewer()
		for step := range 60 {
			w.Step()
			snap := w.Builder.Build()
			got := keeps.See(snap)
			if want := viewer().See(snap); !reflect.DeepEqual(got.Sorted(), want.Sorted()) {
				t.Fatalf("seed %d step %d: the kept view differs from a new one", seed, step)
			}
			all := See(snap, "n0", opts)
			for _, sv := range got.Sorted() {
				free, _ := all.Service(sv.Key)
				more := false
				for i, f := range sv.Frontends {
					checkBounded(t, f.Tiers, free.Frontends[i].Tiers, f.More, most, fmt.Sprintf("seed %d step %d: %s", seed, step, f.Frontend))
					if more = more || f.More; f.More {
						cut++
					} else {
						whole++
					}
				}
				for i, o := range sv.Outside {
					checkBounded(t, o.Tiers, free.Outside[i].Tiers, !reflect.DeepEqual(o.Tiers, free.Outside[i].Tiers), 2*most, fmt.Sprintf("seed %d step %d: %s", seed, step, o.Frontend))
				}
				if told := slices.ContainsFunc(sv.Problems, func(p Problem) bool {
					return strings.HasPrefix(p.Text, "has more ports times endpoints") || strings.HasPrefix(p.Text, "has more node ports and addresses") || strings.HasPrefix(p.Text, "has UDP ports of more endpoints")
				}); more && !told || told && opts.Datapath == 0 && !opts.Outside && !more {
					t.Fatalf("seed %d step %d: %s is bounded: %v, and that is said: %v", seed, step, sv.Key, more, told)
				}
			}
		}
	}
	if cut < 100 || whole < 100 {
		t.Errorf("the histories have %d frontends that are cut, and %d that are not", cut, whole)
	}
}

// checkBounded compares tiers with those that there would be without a bound.
func checkBounded(t *testing.T, got, all []Tier, more bool, most int, at string) {
	t.Helper()
	if len(got) != len(all) {
		t.Fatalf("%s: %d tiers of %d", at, len(got), len(all))
	}
	held, short := 0, false
	for i := range got {
		n := len(got[i].Endpoints)
		if n == 0 || got[i].Key != all[i].Key || got[i].Terminating != all[i].Terminating || short && n > 1 {
			t.Fatalf("%s: tier %d is %+v, of %+v", at, i, got[i], all[i])
		}
		for _, e := range got[i].Endpoints {
			if !slices.Contains(all[i].Endpoints, e) {
				t.Fatalf("%s: tier %d has %v, which it would not without a bound", at, i, e)
			}
		}
		held, short = held+n, short || n < len(all[i].Endpoints)
	}
	if short != more || held > most+len(got) {
		t.Fatalf("%s: %d endpoints in %d tiers, there is room for %d; more: %v, want %v", at, held, len(got), most, more, short)
	}
}

// A connection to an endpoint that had no room lives on, and people are told why it is in no tier.
func TestWhatIsLeftOutByTheBound(t *testing.T) {
	unit := `["site"]`
	w := newWide(3000, 60, TCP, "10.96.0.1")
	w.TopologyKeys = &unit
	_ = w.build()
	for i := range 6 { // one site
		w.SetNode(&Node{Name: fmt.Sprint("n", i), Labels: map[string]string{"site": "a"}})
	}
	snap := w.Build()
	view := See(snap, "n5", Options{})
	sv, _ := view.Service(wideKey)
	entry, _ := snap.Services.Get(wideKey)
	const each = 1 << 17 / 3000
	f := sv.Frontends[0]
	if n := len(f.Tiers[0].Endpoints); n != each || !f.More {
		t.Fatalf("%d endpoints, want %d; more: %v", n, each, f.More)
	}
	left := Explain(snap, view, Options{}, wideKey)[f.Frontend]
	if len(left) != 60-each {
		t.Errorf("%d endpoints are left out, want %d", len(left), 60-each)
	}
	for _, l := range left {
		if l.Rule != "bound" || !strings.HasPrefix(l.Reason, "the Service has more ports and addresses times endpoints") {
			t.Fatalf("%s: %s: %s", l.Addr, l.Rule, l.Reason)
		}
		if got := ClusterIPAccess(entry, sv, f.AddrPort(), l.Addr, TCP); got != AccessAllowed {
			t.Fatalf("%s: access %d", l.Addr, got)
		}
	}
}

// What a load balancer is told counts this node's endpoints, and not those of them that
// a port of a bounded Service is led to.
func TestTheHealthCheckCountsBeyondTheBound(t *testing.T) {
	w := newWide(10, 100, TCP, "10.96.0.1")
	w.Exposure = &Exposure{Local: true, HealthCheckNodePort: 32000, LoadBalancers: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	v := NewViewer("n7", Options{Datapath: DatapathKernel})
	v.BoundTargets(20)
	sv, _ := v.See(w.build()).Service(wideKey)
	if n := len(sv.Outside[0].LocalTiers[0].Endpoints); n >= 10 {
		t.Fatalf("the port has %d endpoints: the test shows nothing", n)
	}
	if sv.HealthCheck.IPv4 != 10 {
		t.Errorf("a load balancer is told of %d endpoints, and this node has 10", sv.HealthCheck.IPv4)
	}
}

// What is said of a bounded Service is about what is bounded: its ClusterIPs' frontends,
// or those that it has besides.
func TestTheBoundSaysWhatHasTooMany(t *testing.T) {
	for name, c := range map[string]struct {
		ports, addresses int
		text             string
	}{
		"ports":     {300, 0, "has more ports times endpoints than the 131072 "},
		"addresses": {1, 400, "has more node ports and addresses times endpoints than the 262144 "},
	} {
		w := newWide(c.ports, 1000, TCP, "10.96.0.1")
		w.Exposure = &Exposure{}
		for i := range c.addresses {
			w.Exposure.LoadBalancers = append(w.Exposure.LoadBalancers, netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}))
		}
		sv, _ := See(w.build(), "n7", Options{Datapath: DatapathKernel}).Service(wideKey)
		if len(sv.Problems) != 1 || !strings.HasPrefix(sv.Problems[0].Text, c.text) {
			t.Errorf("%s: %v, want %q", name, sv.Problems, c.text)
		}
	}
}

// Why an endpoint is in no tier is explained by what the Service has, and not by what it
// asks for: one whose namespace has nothing left besides ClusterIPs is not bounded by it.
func TestExplainedByWhatIsGranted(t *testing.T) {
	w := newWide(1, 100, TCP, "10.96.0.1")
	w.Exposure, w.Created = &Exposure{}, 100
	for i := range 4096 {
		w.Exposure.LoadBalancers = append(w.Exposure.LoadBalancers, netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}))
	}
	for n := range byte(4) { // the elder ones have all
		elder := w.Service
		elder.Key.Name, elder.Created, elder.ClusterIPs = fmt.Sprint("elder-", n), 1, []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 1, n})}
		x := *w.Exposure
		x.LoadBalancers = slices.Clone(x.LoadBalancers)
		for i, ip := range x.LoadBalancers {
			a := ip.As4()
			a[0] = 199 + n
			x.LoadBalancers[i] = netip.AddrFrom4(a)
		}
		elder.Exposure = &x
		w.SetService(&elder)
	}
	snap, opts := w.build(), Options{Datapath: DatapathKernel}
	view := See(snap, "n7", opts)
	sv, _ := view.Service(wideKey)
	if n := len(sv.Frontends[0].Tiers[0].Endpoints); n != 100 || len(sv.Outside) != 0 {
		t.Fatalf("%d endpoints and %d addresses besides: the test shows nothing", n, len(sv.Outside))
	}
	if left := Explain(snap, view, opts, wideKey)[sv.Frontends[0].Frontend]; len(left) > 0 {
		t.Errorf("of endpoints that are in a tier it is explained why %d are in none: %s", len(left), left[0].Reason)
	}
}
