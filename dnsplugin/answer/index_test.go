package answer

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

// question is one that every index is asked.
type question struct {
	name  string
	qtype Type
}

func questions() (list []question) {
	add := func(names ...string) {
		for _, name := range names {
			for _, qtype := range append(slices.Sorted(maps.Values(Types)), Other) {
				list = append(list, question{name, qtype})
			}
		}
	}
	for i := range 8 {
		service := fmt.Sprintf("s%d.default", i)
		add(service, "_a._tcp."+service, "_b._udp."+service)
		for _, host := range []string{"db-0", "db-1", "my-db-0", "db-u0-0", "db-u1-1", "u1-0", "10-244-0-3"} {
			add(host + "." + service)
		}
	}
	add("default", "other", "nowhere")
	return list
}

// everything is every answer that an index has.
type everything struct {
	answers         []Answer // in the order of questions
	services, hosts int
	ptr             [32][]string
}

func ask(x *Index, list []question) (e everything) {
	for _, q := range list {
		e.answers = append(e.answers, x.Lookup(q.name, q.qtype))
	}
	e.services, e.hosts = x.Len()
	for i := range byte(16) {
		for j, ip := range []netip.Addr{netip.AddrFrom4([4]byte{10, 244, 0, i}), netip.AddrFrom4([4]byte{10, 96, 0, i})} {
			e.ptr[2*int(i)+j], _ = x.PTR(ip)
		}
	}
	return e
}

// The laws, over random histories: an index that followed every change answers
// as a new one; no name stands for an endpoint of another unit but by its full
// name; and an ordinal is the own unit's pod.
func TestLaws(t *testing.T) {
	count, list := map[Result]int{}, questions()
	configs := []Config{{}, {Services: true}, {Services: true, Strict: true, EmptyNXDomain: true}}
	for seed := range testkit.Histories(9) {
		cfg, w := configs[seed%3], topologytest.New(seed) // a history of its own for each
		viewer, kept := topology.NewViewer("n0", topology.Options{}), New(cfg)
		for step := range 100 {
			w.Step()
			snap := w.Builder.Build()
			view := viewer.See(snap)
			kept = kept.Next(view)
			got, want := ask(kept, list), ask(New(cfg).Next(view), list)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d step %d: %+v\nfrom nothing: %+v", seed, step, got, want)
			}
			for _, a := range got.answers {
				count[a.Result]++
			}
			checkOrdinals(t, seed, snap, view, kept)
			checkTargets(t, seed, kept)
			checkStrict(t, seed, snap, cfg, kept)
			checkHosts(t, seed, kept)
		}
	}
	for _, result := range []Result{Passed, NXDomain, Found} {
		if count[result] < 1000 {
			t.Errorf("result %d was given %d times: the histories are too tame", result, count[result])
		}
	}
}

// checkOrdinals asks for db-0 and db-1 the naive way.
func checkOrdinals(t *testing.T, seed uint64, snap *topology.Snapshot, view *topology.View, x *Index) {
	t.Helper()
	for key, entry := range snap.Services.All() {
		if entry.Service == nil || !entry.Service.Headless || len(entry.Keys().List) == 0 {
			continue
		}
		unit, labelled := view.Viewpoint.Values[entry.Keys().List[0]]
		for _, i := range []string{"0", "1"} {
			want := map[netip.Addr]bool{}
			for _, s := range entry.Slices {
				for _, ep := range s.Endpoints {
					n, _ := snap.Nodes.Get(ep.Node)
					if labelled && n != nil && ep.Ready && n.Labels[entry.Keys().List[0]] == unit && ep.Hostname == "db-"+unit+"-"+i {
						want[ep.Addr] = true
					}
				}
			}
			got := map[netip.Addr]bool{}
			for _, kind := range []Type{A, AAAA} {
				for _, ip := range x.Lookup("db-"+i+"."+serviceName(key), kind).Addrs {
					got[ip] = true
				}
			}
			if !maps.Equal(got, want) {
				t.Fatalf("seed %d: db-%s of %s in unit %q: %v, want %v", seed, i, key, unit, got, want)
			}
		}
	}
}

// checkTargets: the targets of every SRV record resolve, to their addresses.
func checkTargets(t *testing.T, seed uint64, x *Index) {
	t.Helper()
	for i := range 6 {
		for _, target := range x.Lookup(fmt.Sprintf("s%d.default", i), SRV).SRV {
			for _, ip := range target.Addrs {
				qtype := A
				if ip.Is6() {
					qtype = AAAA
				}
				if a := x.Lookup(target.Name, qtype); !slices.Contains(a.Addrs, ip) {
					t.Fatalf("seed %d: the target %s has %s, and resolves to %+v", seed, target.Name, ip, a)
				}
			}
		}
	}
}

// checkStrict: with strict, a pod's name resolves to what its Service's name
// stands for, and to nothing else.
func checkStrict(t *testing.T, seed uint64, snap *topology.Snapshot, cfg Config, x *Index) {
	t.Helper()
	if !cfg.Strict {
		return
	}
	for key, entry := range snap.Services.All() {
		if entry.Service == nil || !entry.Service.Headless || entry.Service.GridKey == "" {
			continue
		}
		for _, s := range entry.Slices {
			for _, ep := range s.Endpoints {
				for _, qtype := range []Type{A, AAAA} {
					members := x.Lookup(serviceName(key), qtype).Addrs
					for _, ip := range x.Lookup(hostName(&ep)+"."+serviceName(key), qtype).Addrs {
						if !slices.Contains(members, ip) {
							t.Fatalf("seed %d: %s of %s resolves to %s, and the Service is %v", seed, hostName(&ep), key, ip, members)
						}
					}
				}
			}
		}
	}
}

// checkHosts: every line of the hosts file is what the name resolves to.
func checkHosts(t *testing.T, seed uint64, x *Index) {
	t.Helper()
	for line := range strings.Lines(string(x.Hosts("zone"))) {
		ip, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind := A
		if strings.Contains(ip, ":") {
			kind = AAAA
		}
		a := x.Lookup(strings.TrimSuffix(name, ".svc.zone"), kind)
		if !slices.Contains(a.Addrs, netip.MustParseAddr(ip)) {
			t.Fatalf("seed %d: the hosts file says %q, the lookup %v", seed, line, a.Addrs)
		}
	}
}

func FuzzLookup(f *testing.F) {
	w := topologytest.New(1)
	for range 100 {
		w.Step()
	}
	snap := w.Builder.Build()
	x := New(Config{Services: true}).Next(topology.See(snap, "n0", topology.Options{}))
	for _, name := range []string{"s1.default", "_a._tcp.s1.default", "db-0.s2.default", "", ".", "..", "_._.s1.default", strings.Repeat("a.", 200)} {
		f.Add(name, 1)
	}
	f.Fuzz(func(t *testing.T, name string, kind int) {
		a := x.Lookup(name, Type(kind))
		if a.Result != Found && (len(a.Addrs) > 0 || len(a.SRV) > 0) {
			t.Errorf("%q: %+v", name, a)
		}
		_ = x.Explain(name, Type(kind))
	})
}
