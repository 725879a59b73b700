package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

func kernelConfig() Config {
	c := config()
	c.Kernel = &Kernel{NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}}
	return c
}

func kernelPlanner() *KernelPlanner {
	cfg := kernelConfig()
	return NewKernelPlanner(cfg, cfg.Kernel.NodePorts(nil))
}

func front(address string, protocol topology.Protocol) topology.Frontend {
	ap := netip.MustParseAddrPort(address)
	return topology.Frontend{Addr: ap.Addr(), Port: ap.Port(), Protocol: protocol}
}

func tier(addresses ...string) (list []netip.AddrPort) {
	for _, a := range addresses {
		list = append(list, netip.MustParseAddrPort(a))
	}
	return list
}

// world is a random history of Services.
type world struct {
	*rand.Rand
	services map[string][]KernelFrontend
}

func (w *world) endpoints(ipv6 bool) (list []netip.AddrPort) {
	for range w.IntN(6) {
		if ipv6 {
			list = append(list, netip.MustParseAddrPort(fmt.Sprintf("[fd00:244::%x]:80", w.IntN(12))))
		} else {
			list = append(list, netip.MustParseAddrPort(fmt.Sprintf("10.244.0.%d:80", w.IntN(12))))
		}
	}
	return list
}

func (w *world) step() (service string, list []KernelFrontend) {
	service = fmt.Sprintf("s%d", w.IntN(5))
	for range w.IntN(4) {
		ipv6 := w.IntN(3) == 0
		addr := netip.MustParseAddr(fmt.Sprintf("10.96.0.%d", w.IntN(4)))
		if ipv6 {
			addr = netip.MustParseAddr(fmt.Sprintf("fd00:96::%d", w.IntN(4)))
		}
		f := KernelFrontend{Session: service, Tiers: [][]netip.AddrPort{w.endpoints(ipv6), w.endpoints(ipv6)}, Silent: w.IntN(2) == 0}
		f.Frontend = topology.Frontend{Addr: addr, Port: uint16(80 + w.IntN(2)), Protocol: topology.UDP}
		f.Crowd = Crowd(max(0, w.IntN(9)-6))
		f.Affinity, f.Here = time.Duration(w.IntN(2)*w.IntN(9))*time.Second, w.IntN(2) == 0
		if w.IntN(2) == 0 {
			f.Here = false
			f.Outside = &KernelOutside{Local: w.IntN(2) == 0, LocalTiers: [][]netip.AddrPort{w.endpoints(ipv6)}, Silent: w.IntN(2) == 0}
			if w.IntN(2) == 0 {
				f.Addr = netip.IPv4Unspecified()
				if ipv6 {
					f.Addr = netip.IPv6Unspecified()
				}
			} else if w.IntN(2) == 0 {
				f.Outside.Sources = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64"), netip.MustParsePrefix("198.51.100.0/26")}[w.IntN(2) : 3+w.IntN(2)]
			}
		}
		list = append(list, f)
	}
	w.services[service] = list
	return service, list
}

// unordered is a plan without which endpoint has which number: that depends on
// the history.
func unordered(t *testing.T, p *KernelPlanner) any {
	t.Helper()
	e, picks := p.Plan()
	numbers := map[topology.Frontend][]uint32{}
	slots := map[string]bool{}
	for _, x := range e.Names { // each leads to the endpoint of its number
		end := End{x.Frontend, x.ID, netip.AddrPort{}}
		for _, s := range e.Slots {
			if s.Frontend == x.Frontend && s.Number == x.Number {
				end.Endpoint = s.Endpoint
			}
		}
		if !slices.Contains(e.Ends, end) {
			t.Fatalf("%v leads to none of %v", x, e.Ends)
		}
	}
	for _, s := range e.Slots {
		slots[fmt.Sprint(s.Frontend, s.Number/NearSlot, s.Endpoint)] = true
		numbers[s.Frontend] = append(numbers[s.Frontend], s.Number)
	}
	if len(slots) != len(e.Slots) {
		t.Fatalf("an endpoint has two numbers: %v", e.Slots)
	}
	for _, list := range [][]Front{e.Fronts, e.Nears} {
		for _, f := range list {
			for i := range f.Pick.Among {
				number := uint32(i)
				if f.Pick.Near {
					number += NearSlot
				}
				if !slices.Contains(numbers[f.Frontend], number) {
					t.Fatalf("%v has no endpoint %d", f, number)
				}
			}
		}
	}
	for _, list := range numbers {
		slices.Sort(list)
	}
	e.Slots, e.Names = nil, nil
	return []any{slots, numbers, sets(e), picks}
}

// sets is a plan as sets.
func sets(e KernelElements) map[string]bool {
	m := map[string]bool{}
	v := reflect.ValueOf(e)
	for i := range v.NumField() {
		for j := range v.Field(i).Len() {
			m[fmt.Sprintf("%s %v", v.Type().Field(i).Name, v.Field(i).Index(j))] = true
		}
	}
	return m
}

// The law: a plan kept over a history is one made anew, but for the numbers of
// endpoints, and changes lead from each to the next, whatever parts they are taken in.
func TestKernelPlannerIsIncremental(t *testing.T) {
	for seed := range testkit.Histories(10) {
		w := &world{rand.New(rand.NewPCG(seed, 1)), map[string][]KernelFrontend{}}
		kept := kernelPlanner()
		kept.memories.room = 6 * fewClients
		is := followed{map[string]bool{}, map[Pick]bool{}, map[List]string{}}
		for step := range 60 {
			for range 1 + w.IntN(3) {
				kept.Set(w.step())
			}
			changes := []*KernelChange{kept.Settle()}
			for _, service := range kept.Due() { // whose turn it is at once
				kept.grant(service)
			}
			changes = append(changes, kept.Settle())
			anew := kernelPlanner()
			anew.memories.room = kept.memories.room
			for name, list := range w.services {
				anew.Set(name, list)
			}
			anew.Settle()
			if got, want := unordered(t, kept), unordered(t, anew); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d step %d: kept\n%v\nanew\n%v", seed, step, got, want)
			}
			for _, c := range changes {
				if err := is.take(c, 1+step%7); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			}
			if all, _ := kept.Plan(); !reflect.DeepEqual(is.written, sets(all)) {
				t.Fatalf("seed %d step %d: changes lead elsewhere:\n%v\nwant %v", seed, step, is.written, sets(all))
			}
			checkLists(t, kept, is.lists)
			if _, picks := kept.Plan(); len(picks) != len(is.chains) {
				t.Fatalf("seed %d step %d: chains %v, want %v", seed, step, is.chains, picks)
			}
		}
	}
}

// checkLists wants those lists that frontends lead to, and what is in them, of a planner, and
// by its changes.
func checkLists(t *testing.T, p *KernelPlanner, changed map[List]string) {
	t.Helper()
	all, needed := map[List]string{}, map[List]bool{}
	for _, r := range p.Lists() {
		all[r.List] = fmt.Sprint(r.Of)
	}
	e, _ := p.Plan()
	for _, l := range e.Limits {
		needed[l.List] = true
		if all[l.List] == "" {
			t.Fatalf("%v leads to a list that is not there, or lets nobody in", l)
		}
	}
	if !reflect.DeepEqual(all, changed) || len(all) != len(needed) || len(p.ranges) != len(all) {
		t.Fatalf("lists %v, by changes %v; %d are needed, %d are held", all, changed, len(needed), len(p.ranges))
	}
}

// One endpoint that comes, goes or is another changes a handful of elements.
func TestOneEndpointIsAHandfulOfElements(t *testing.T) {
	t.Run("plain", func(t *testing.T) { oneEndpoint(t, 0, 4) })
	t.Run("with affinity", func(t *testing.T) { oneEndpoint(t, time.Hour, 8) })
}

func oneEndpoint(t *testing.T, keep time.Duration, most int) {
	t.Helper()
	p := kernelPlanner()
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("10.244.9.%d:80", i))
	}
	set := func(list ...string) *KernelChange {
		p.Set("web", []KernelFrontend{{Frontend: front("10.96.0.1:80", topology.TCP), Tiers: [][]netip.AddrPort{tier(list...)}, Affinity: keep}})
		return p.Settle()
	}
	set(all[:90]...)
	for _, step := range []struct {
		name string
		list []string
	}{{"gone", all[1:90]}, {"another", all[2:91]}, {"came", all[2:92]}} {
		c := set(step.list...)
		keys := map[string]bool{}
		gone, come := c.all()
		for _, e := range []*KernelElements{gone, come} {
			for _, s := range e.Slots {
				keys[fmt.Sprint(s.Number)] = true
			}
			for _, x := range e.Names {
				keys[fmt.Sprint("name ", x.Number)] = true
			}
			for _, x := range e.Ends {
				keys[fmt.Sprint("end ", x.ID)] = true
			}
			for range e.Fronts {
				keys["front"] = true
			}
		}
		if len(keys) > most {
			t.Errorf("%s: %d elements: %v", step.name, len(keys), keys)
		}
	}
}

func TestNodePorts(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2001:db8::1")}
	for name, tc := range map[string]struct {
		ranges []string
		want   string
	}{
		"primary":  {nil, "[192.0.2.7]"},
		"a range":  {[]string{"198.51.100.0/24"}, "[198.51.100.1]"},
		"all":      {[]string{"0.0.0.0/0", "::/0"}, "[192.0.2.1 198.51.100.1 2001:db8::1]"},
		"loopback": {[]string{"127.0.0.0/8"}, "[]"},
	} {
		k := &Kernel{NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}
		for _, r := range tc.ranges {
			k.NodePortAddresses = append(k.NodePortAddresses, netip.MustParsePrefix(r))
		}
		if got := fmt.Sprint(k.NodePorts(own)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestSources(t *testing.T) {
	p := kernelPlanner()
	for name, tc := range map[string]struct {
		ranges []string
		want   string
	}{
		"none":                    {nil, "everybody"},
		"of the other family":     {[]string{"2001:db8::/64"}, "everybody"},
		"everybody":               {[]string{"10.0.0.0/8", "0.0.0.0/0"}, "everybody"},
		"some":                    {[]string{"10.0.0.0/8", "10.1.0.0/16"}, "[10.0.0.0/8]"},
		"the node":                {[]string{"192.0.2.0/24"}, "[192.0.2.0/24] and 203.0.113.1:80/tcp itself"},
		"the load balancer's own": {[]string{"203.0.113.0/24"}, "[203.0.113.0/24]"},
	} {
		var ranges []netip.Prefix
		for _, r := range tc.ranges {
			ranges = append(ranges, netip.MustParsePrefix(r))
		}
		f := front("203.0.113.1:80", topology.TCP)
		p.Set("web", []KernelFrontend{{Frontend: f, Outside: &KernelOutside{Sources: ranges}}})
		p.Settle()
		e, _ := p.Plan()
		got := "everybody"
		for _, l := range e.Limits {
			i := slices.IndexFunc(p.Lists(), func(r Ranges) bool { return r.List == l.List })
			got = fmt.Sprint(p.Lists()[i].Of)
		}
		for _, self := range e.Selves {
			got += fmt.Sprintf(" and %s itself", self)
		}
		if n := len(p.Lists()); got != tc.want || n != len(e.Limits) {
			t.Errorf("%s: %s, want %s; %d lists", name, got, tc.want, n)
		}
	}
}

func TestStaleUDP(t *testing.T) {
	p := kernelPlanner()
	dns, gone, never := front("10.96.0.1:53", topology.UDP), front("10.96.0.2:53", topology.UDP), "10.96.0.9:53"
	tiers := [][]netip.AddrPort{tier("10.244.0.1:53"), tier("10.244.0.2:53")}
	p.Set("dns", []KernelFrontend{
		{Frontend: dns, Tiers: tiers, Serving: tier("10.244.0.3:53")},
		{Frontend: gone},
		{Frontend: front("0.0.0.0:30053", topology.UDP), Tiers: tiers, Outside: &KernelOutside{Local: true, LocalTiers: [][]netip.AddrPort{tier("10.244.0.4:53")}}},
	})
	changed := p.Settle().UDP
	for _, tc := range []struct {
		name, dialled, answerer string
		want                    bool
	}{
		{"its endpoint", "10.96.0.1:53", "10.244.0.1:53", false},
		{"one of another tier", "10.96.0.1:53", "10.244.0.2:53", false},
		{"one that is not among them and serves", "10.96.0.1:53", "10.244.0.3:53", false},
		{"one that is gone", "10.96.0.1:53", "10.244.0.9:53", true},
		{"from before there was any", "10.96.0.1:53", "10.96.0.1:53", true},
		{"there is none", "10.96.0.2:53", "10.244.0.9:53", true},
		{"nobody's", never, "10.244.0.9:53", false},
		{"a node port", "192.0.2.1:30053", "10.244.0.9:53", true},
		{"a node port, near", "192.0.2.1:30053", "10.244.0.4:53", false},
	} {
		flow := UDPFlow{netip.MustParseAddrPort(tc.dialled), netip.MustParseAddrPort(tc.answerer)}
		if got, all := changed.Stale(flow), p.ServingUDP().Stale(flow); got != tc.want || all != tc.want {
			t.Errorf("%s: stale %v, by all of the plan %v", tc.name, got, all)
		}
		anybody := UDPServing{flow.Dialled: {Anybody}}
		if got := anybody.Stale(flow); got != (tc.dialled == tc.answerer) {
			t.Errorf("%s, and anybody may serve: stale %v", tc.name, got)
		}
	}
}

// A change names the frontends of UDP whose flows may be stale by it, and no others.
func TestFlowsOfAChange(t *testing.T) {
	p := kernelPlanner()
	one, two := front("10.96.0.1:53", topology.UDP), front("10.96.0.2:53", topology.UDP)
	tiers := [][]netip.AddrPort{tier("10.244.0.1:53"), tier("10.244.0.2:53")}
	for _, step := range []struct {
		name, service, want string
		list                []KernelFrontend
	}{
		{"two that are new", "dns", "map[10.96.0.1:53:[10.244.0.1:53 10.244.0.1:53 10.244.0.2:53] 10.96.0.2:53:[invalid AddrPort]]", []KernelFrontend{{Frontend: one, Tiers: tiers}, {Frontend: two}}},
		{"one of TCP", "web", "map[]", []KernelFrontend{{Frontend: front("10.96.0.1:80", topology.TCP), Tiers: tiers}}},
		{"the second has an endpoint", "dns", "map[10.96.0.2:53:[10.244.0.1:53 10.244.0.1:53]]", []KernelFrontend{{Frontend: one, Tiers: tiers}, {Frontend: two, Tiers: tiers[:1]}}},
		{"the same", "dns", "map[]", []KernelFrontend{{Frontend: one, Tiers: tiers}, {Frontend: two, Tiers: tiers[:1]}}},
		{"the first is gone", "dns", "map[10.96.0.1:53:[]]", []KernelFrontend{{Frontend: two, Tiers: tiers[:1]}}},
	} {
		p.Set(step.service, step.list)
		if got := fmt.Sprint(p.Settle().UDP); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

// Where a policy leaves endpoints of this node alone clients keep none of the others
// that they had by another address, whether for a ClusterIP or for who comes from
// elsewhere.
func TestNobodyKeepsWhatAPolicyLeavesOut(t *testing.T) {
	p := kernelPlanner()
	here, both := tier("10.244.0.1:80"), tier("10.244.0.1:80", "10.244.9.9:80")
	p.Set("s", []KernelFrontend{
		{Frontend: front("10.96.0.1:80", topology.TCP), Tiers: [][]netip.AddrPort{here}, Here: true, Affinity: time.Hour, Session: "s"},
		{Frontend: front("203.0.113.1:80", topology.TCP), Tiers: [][]netip.AddrPort{both}, Affinity: time.Hour, Session: "s", Outside: &KernelOutside{Local: true, LocalTiers: [][]netip.AddrPort{here}}},
	})
	p.Settle()
	e, _ := p.Plan()
	memory := map[topology.Frontend]uint64{}
	for _, f := range slices.Concat(e.Fronts, e.Nears) {
		memory[f.Frontend] = f.Pick.Session
	}
	if cluster, near := front("10.96.0.1:80", topology.TCP), front("203.0.113.1:80", topology.TCP); memory[cluster]&1 == 0 || memory[cluster] != memory[near] {
		t.Errorf("who comes from elsewhere and who dials the ClusterIP are remembered in %v", memory)
	}
	here, both = tier("10.244.0.1:80"), nil
	for _, x := range e.Ends {
		if x.ID&nameHere != 0 && !slices.Contains(here, x.Endpoint) {
			t.Errorf("%s: where this node's alone may answer clients may keep %s", x.Frontend, x.Endpoint)
		}
		if x.ID&nameHere == 0 {
			both = append(both, x.Endpoint)
		}
	}
	slices.SortFunc(both, netip.AddrPort.Compare)
	if want := tier("10.244.0.1:80", "10.244.9.9:80"); !slices.Equal(both, want) {
		t.Errorf("elsewhere clients may keep %v, want %v", both, want)
	}
}
