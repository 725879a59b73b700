package rules

import (
	"net/netip"
	"testing"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

var (
	podV4     = netip.MustParseAddr("10.244.0.1")
	otherPod  = netip.MustParseAddr("10.244.0.2")
	elsewhere = netip.MustParseAddr("10.20.0.9")
	hostV4    = netip.MustParseAddr("10.20.0.1")
)

func config() plan.Config {
	c := plan.Default()
	c.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/29"), netip.MustParsePrefix("fd00:244::/125")}
	c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/24"), netip.MustParsePrefix("fd00::/112")}
	return c
}

func kept() plan.Config {
	c := config()
	c.KeepBridgeNetfilter = true
	return c
}

func frontend(address string, protocol topology.Protocol) topology.Frontend {
	ap := netip.MustParseAddrPort(address)
	return topology.Frontend{Addr: ap.Addr(), Port: ap.Port(), Protocol: protocol}
}

func example(cfg plan.Config) *plan.Plan {
	return &plan.Plan{
		Serve:   []topology.Frontend{frontend("10.96.0.1:80", topology.TCP), frontend("10.96.0.2:53", topology.UDP), frontend("10.96.0.2:54", topology.UDP), frontend("[fd00::1]:80", topology.TCP)},
		Silent:  []topology.Frontend{frontend("10.96.0.3:80", topology.TCP)},
		Guard:   cfg.ServiceCIDRs,
		Pods:    cfg.PodCIDRs,
		Hairpin: []netip.Addr{podV4},
	}
}

func TestWalk(t *testing.T) {
	tcp, udp := topology.TCP, topology.UDP
	web, dns := frontend("10.96.0.1:80", tcp), frontend("10.96.0.2:53", udp)
	for name, tc := range map[string]struct {
		cfg      plan.Config
		packet   Packet
		fate     Fate
		listener string
	}{
		"a pod":                                     {config(), Packet{Src: podV4, To: web}, ToEnvoy, "127.0.0.1:15001"},
		"a client from elsewhere":                   {config(), Packet{Src: elsewhere, To: web}, ToEnvoy, "127.0.0.1:15002"},
		"the host":                                  {config(), Packet{Src: hostV4, To: web, Local: true}, ToEnvoy, "127.0.0.1:15002"},
		"a pod, IPv6":                               {config(), Packet{Src: netip.MustParseAddr("fd00:244::1"), To: frontend("[fd00::1]:80", tcp)}, ToEnvoy, "[::1]:15001"},
		"a pod, Envoy absent":                       {config(), Packet{Src: podV4, To: web, NoListen: true}, Refused, ""},
		"the host, Envoy absent":                    {config(), Packet{Src: hostV4, To: web, Local: true, NoListen: true}, Refused, ""},
		"UDP":                                       {config(), Packet{Src: podV4, To: dns, Awaited: true}, ToEnvoy, "10.96.0.2:53"},
		"UDP, Envoy absent":                         {config(), Packet{Src: podV4, To: dns, NoListen: true}, Refused, ""},
		"UDP, the host, Envoy absent":               {config(), Packet{Src: hostV4, To: dns, Local: true, NoListen: true}, Refused, ""},
		"UDP to a listener that stayed":             {config(), Packet{Src: podV4, To: frontend("10.96.0.9:53", udp), Awaited: true}, Refused, ""},
		"a port that nothing serves":                {config(), Packet{Src: podV4, To: frontend("10.96.0.1:81", tcp)}, Refused, ""},
		"the same from the host":                    {config(), Packet{Src: hostV4, To: frontend("10.96.0.1:81", tcp), Local: true}, Refused, ""},
		"silent":                                    {config(), Packet{Src: podV4, To: frontend("10.96.0.3:80", tcp)}, Dropped, ""},
		"silent, the host":                          {config(), Packet{Src: hostV4, To: frontend("10.96.0.3:80", tcp), Local: true}, Dropped, ""},
		"no Service":                                {config(), Packet{Src: podV4, To: frontend("192.0.2.1:80", tcp)}, Passed, ""},
		"an answer to a kept source":                {config(), Packet{Src: elsewhere, To: frontend("10.244.0.1:999", tcp), Awaited: true, Tracked: true, CtMark: 2}, ToEnvoy, "10.244.0.1:999"},
		"one that is the pod's own":                 {config(), Packet{Src: elsewhere, To: frontend("10.244.0.1:999", tcp), Awaited: true, Tracked: true}, Passed, ""},
		"one that conntrack forgot":                 {config(), Packet{Src: elsewhere, To: frontend("10.244.0.1:999", tcp), Awaited: true}, ToEnvoy, "10.244.0.1:999"},
		"other bits of the mark stay":               {config(), Packet{Src: podV4, To: web, Mark: 0xf0}, ToEnvoy, "127.0.0.1:15001"},
		"bridged, redirected":                       {kept(), Packet{Src: podV4, To: web, Bridged: true}, ToEnvoy, "0.0.0.0:15003"},
		"bridged, not a pod's address":              {kept(), Packet{Src: elsewhere, To: web, Bridged: true}, ToEnvoy, "0.0.0.0:15004"},
		"bridged, Envoy absent":                     {kept(), Packet{Src: podV4, To: web, Bridged: true, NoListen: true}, Refused, ""},
		"bridged, UDP":                              {kept(), Packet{Src: podV4, To: dns, Bridged: true, Awaited: true}, ToEnvoy, "10.96.0.2:53"},
		"routed beside a bridge":                    {kept(), Packet{Src: podV4, To: web}, ToEnvoy, "127.0.0.1:15001"},
		"to a redirect port itself":                 {kept(), Packet{Src: podV4, To: frontend("10.20.0.1:15003", tcp), ToNode: true}, Refused, ""},
		"to another port of the node":               {kept(), Packet{Src: podV4, To: frontend("10.20.0.1:22", tcp), ToNode: true}, Passed, ""},
		"an endpoint of the node answers Envoy":     {config(), Packet{Src: hostV4, To: frontend("10.244.0.1:999", tcp), Local: true, Tracked: true, Reply: true, CtMark: 2, Awaited: true}, ToEnvoy, "10.244.0.1:999"},
		"that Envoy has closed":                     {config(), Packet{Src: hostV4, To: frontend("10.244.0.1:999", tcp), Local: true, Tracked: true, Reply: true, CtMark: 2}, Refused, ""},
		"it answers Envoy, which has the node's":    {config(), Packet{Src: hostV4, To: frontend("10.20.0.1:999", tcp), Local: true, ToNode: true, Tracked: true, Reply: true, CtMark: 2}, Passed, ""},
		"it answers a pod that dialled it":          {config(), Packet{Src: hostV4, To: frontend("10.244.0.1:999", tcp), Local: true, Tracked: true, Reply: true}, Passed, ""},
		"the kernel speaks for a socket of Envoy":   {config(), Packet{Src: podV4, To: frontend("192.0.2.1:80", tcp), Local: true, Tracked: true, CtMark: 2}, Passed, ""},
		"open, the host, served no longer":          {config(), Packet{Src: hostV4, To: frontend("10.96.0.9:80", tcp), Local: true, Tracked: true, CtMark: 1, Awaited: true}, ToEnvoy, "10.96.0.9:80"},
		"open, the host, Envoy has closed":          {config(), Packet{Src: hostV4, To: frontend("10.96.0.9:80", tcp), Local: true, Tracked: true, CtMark: 1}, Refused, ""},
		"open, the host, its address is no Service": {config(), Packet{Src: hostV4, To: frontend("192.0.2.7:80", tcp), Local: true, Tracked: true, CtMark: 1, Awaited: true}, ToEnvoy, "192.0.2.7:80"},
		"open, the host, silent now":                {config(), Packet{Src: hostV4, To: frontend("10.96.0.3:80", tcp), Local: true, Tracked: true, CtMark: 1, Awaited: true}, ToEnvoy, "10.96.0.3:80"},
		"open, a pod, served no longer":             {config(), Packet{Src: podV4, To: frontend("10.96.0.9:80", tcp), Tracked: true, Awaited: true}, ToEnvoy, "10.96.0.9:80"},
		"open, a pod, silent now":                   {config(), Packet{Src: podV4, To: frontend("10.96.0.3:80", tcp), Tracked: true, Awaited: true}, ToEnvoy, "10.96.0.3:80"},
		"astray, a pod":                             {config(), Packet{Src: podV4, To: web, Astray: true}, Refused, ""},
		"astray, a pod, UDP":                        {config(), Packet{Src: podV4, To: dns, Astray: true, Awaited: true}, Refused, ""},
		"astray, the host":                          {config(), Packet{Src: hostV4, To: web, Local: true, Astray: true}, Refused, ""},
		"astray, the host, UDP":                     {config(), Packet{Src: hostV4, To: dns, Local: true, Astray: true}, Refused, ""},
		"astray, redirected":                        {kept(), Packet{Src: podV4, To: web, Bridged: true, Astray: true}, ToEnvoy, "0.0.0.0:15003"},
		"to that port, netfilter cleared":           {config(), Packet{Src: podV4, To: frontend("10.20.0.1:15003", tcp), ToNode: true}, Passed, ""},
	} {
		got := Inet(tc.cfg).Walk(example(tc.cfg), tc.packet)
		listener := ""
		if got.Fate == ToEnvoy {
			listener = got.Listener.String()
		}
		if got.Fate != tc.fate || listener != tc.listener {
			t.Errorf("%s: %s %s, want %s %s; rules: %v", name, got.Fate, listener, tc.fate, tc.listener, got.Met)
		}
		if got.Packet.Mark&^3 != tc.packet.Mark&^3 {
			t.Errorf("%s: mark %#x became %#x", name, tc.packet.Mark, got.Packet.Mark)
		}
	}
}

func TestEnvoysOwnAreLeftAlone(t *testing.T) {
	cfg := config()
	got := Inet(cfg).Walk(example(cfg), Packet{Src: podV4, To: frontend("10.244.0.1:80", topology.TCP), Local: true, Mark: cfg.Own()})
	if last := got.Met[len(got.Met)-1]; got.Fate != Passed || got.Packet.CtMark != cfg.Own() || last.Rule[len(last.Rule)-1] != Masquerade {
		t.Errorf("a pod that meets itself: %+v", got)
	}
	got = Inet(cfg).Walk(example(cfg), Packet{Src: podV4, To: frontend("10.244.0.2:80", topology.TCP), Local: true, Mark: cfg.Own()})
	if last := got.Met[len(got.Met)-1]; got.Fate != Passed || last.Chain != Local {
		t.Errorf("a pod that meets another: %+v", got)
	}
}

func TestLift(t *testing.T) {
	cfg := config()
	bridge := MAC{2, 0, 0, 0, 0, 1}
	table := Bridge([]PodBridge{{Name: "cni0", MAC: bridge, Pods: cfg.PodCIDRs}})
	between := Packet{Src: podV4, To: topology.Frontend{Addr: otherPod, Port: 80, Protocol: topology.TCP}, Dest: MAC{2, 0, 0, 0, 0, 9}}
	change := func(f func(*Packet)) Packet {
		p := between
		f(&p)
		return p
	}
	for name, tc := range map[string]struct {
		packet Packet
		fate   Fate
	}{
		"pod to pod":        {between, ToHost},
		"pod to the bridge": {change(func(p *Packet) { p.Dest = bridge }), Passed},
		"UDP":               {change(func(p *Packet) { p.To.Protocol = topology.UDP }), Passed},
		"to somebody else":  {change(func(p *Packet) { p.To.Addr = elsewhere }), Passed},
		"from elsewhere":    {change(func(p *Packet) { p.Src = elsewhere }), Passed},
		"a broadcast":       {change(func(p *Packet) { p.Group = true }), Passed},
	} {
		got := table.Walk(&plan.Plan{}, tc.packet)
		if got.Fate != tc.fate || (got.Fate == ToHost && got.Packet.Dest != bridge) {
			t.Errorf("%s: %s to %s, want %s", name, got.Fate, got.Packet.Dest, tc.fate)
		}
	}
	if Bridge(nil) != nil {
		t.Error("there are rules for no bridge")
	}
}

// The law: over random histories every frontend with tiers reaches Envoy, every
// other one is refused or dropped, and with Envoy absent nothing leaves.
func TestNothingUnservedPasses(t *testing.T) {
	for seed := range uint64(20) {
		w := topologytest.New(seed)
		viewer := topology.NewViewer("n0", topology.Options{})
		for range 50 {
			w.Step()
			view := viewer.See(w.Snapshot())
			for _, cfg := range []plan.Config{config(), kept()} {
				checkView(t, cfg, view)
			}
		}
	}
}

func everywhere(topology.Frontend) bool { return true }

func nowhere(topology.Frontend) bool { return false }

func checkView(t *testing.T, cfg plan.Config, view *topology.View) {
	t.Helper()
	p := plan.Of(view, cfg)
	table := Inet(cfg)
	for _, s := range view.Sorted() {
		for _, f := range s.Frontends {
			want := Refused
			switch {
			case len(f.Tiers) > 0:
				want = ToEnvoy
			case f.Silent:
				want = Dropped
			}
			if got := Trace(cfg, p, nil, Question{Client: podV4, To: f.Frontend, Listens: everywhere}); got.Fate != want {
				t.Fatalf("%s %s: %s, want %s", s.Key, f.Frontend, got.Fate, want)
			}
			if got := Trace(cfg, p, nil, Question{Client: podV4, To: f.Frontend, Listens: nowhere}); (got.Fate == ToEnvoy) != (want == ToEnvoy && f.Protocol == topology.TCP) {
				t.Fatalf("%s %s: %s without a listener of its own", s.Key, f.Frontend, got.Fate)
			}
			wrongPort := f.Frontend
			wrongPort.Port = 9
			if got := Trace(cfg, p, nil, Question{Client: podV4, To: wrongPort, Listens: everywhere}); got.Fate != Refused {
				t.Fatalf("%s: port 9 is %s", s.Key, got.Fate)
			}
			for _, local := range []bool{true, false} {
				for what, packet := range map[string]Packet{"without Envoy": {NoListen: true}, "with its route gone": {Astray: true}, "with neither": {NoListen: true, Astray: true}} {
					packet.Src, packet.To, packet.Local = podV4, f.Frontend, local
					if got := table.Walk(p, packet); got.Fate != Refused && got.Fate != want || got.Fate == ToEnvoy {
						t.Fatalf("%s %s %s: %s", s.Key, f.Frontend, what, got.Fate)
					}
				}
			}
		}
	}
}

func TestTraceSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg    plan.Config
		client netip.Addr
		to     topology.Frontend
		want   []string
	}{
		"a pod's": {config(), podV4, frontend("10.96.0.1:80", topology.TCP), []string{
			"set serve4 holds 10.96.0.1:80/tcp", "10.244.0.1 is a pod of this node: its address is kept", "tproxy to 127.0.0.1:15001, mark 0x1",
		}},
		"somebody's": {config(), elsewhere, frontend("[fd00::1]:80", topology.TCP), []string{
			"set serve6 holds [fd00::1]:80/tcp", "10.20.0.9 is no pod of this node: Envoy dials with the node's address", "tproxy to [::1]:15002, mark 0x1",
		}},
		"redirected": {kept(), podV4, frontend("10.96.0.1:80", topology.TCP), []string{
			"set serve4 holds 10.96.0.1:80/tcp", "10.244.0.1 is a pod of this node: its address is kept",
			"redirect to port 15003 of its bridge, whose netfilter stays on (on a routed pod network: tproxy)",
		}},
		"UDP": {config(), podV4, frontend("10.96.0.2:53", topology.UDP), []string{
			"set serve4 holds 10.96.0.2:53/udp", "mark 0x1, route table 15001: delivered to Envoy's listener on 10.96.0.2:53",
		}},
		"UDP without a listener": {config(), podV4, frontend("10.96.0.2:54", topology.UDP), []string{
			"set serve4 holds 10.96.0.2:54/udp, and Envoy has no listener for it: UDP is served for Services with topologyKeys, as far as a node's listeners go",
		}},
		"silent": {config(), podV4, frontend("10.96.0.3:80", topology.TCP), []string{
			"set silent4 holds 10.96.0.3:80/tcp: internalTrafficPolicy Local without a local endpoint",
		}},
		"refused": {config(), podV4, frontend("10.96.0.1:81", topology.TCP), []string{
			"set serve4 does not hold 10.96.0.1:81/tcp: no endpoint this node may use, or no such port", "guard: 10.96.0.1 is an address of Services",
		}},
		"passed": {config(), podV4, frontend("192.0.2.1:81", topology.TCP), []string{"192.0.2.1 is no address of a Service"}},
	} {
		got := Trace(tc.cfg, example(tc.cfg), nil, Question{Client: tc.client, To: tc.to, Listens: func(f topology.Frontend) bool { return f.Port == 53 }})
		if len(got.Steps) != len(tc.want) {
			t.Errorf("%s: %q, want %q", name, got.Steps, tc.want)
			continue
		}
		for i, step := range got.Steps {
			if step != tc.want[i] {
				t.Errorf("%s: step %d: %q, want %q", name, i+1, step, tc.want[i])
			}
		}
	}
}
