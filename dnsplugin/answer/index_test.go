package answer

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

// everything is every answer that an index has, by question.
func everything(x *Index) map[string]any {
	out := map[string]any{}
	ask := func(name string) {
		for _, kind := range []Type{Other, A, AAAA, SRV} {
			out[fmt.Sprint(name, " ", kind)] = x.Lookup(name, kind)
		}
	}
	for i := range 8 {
		service := fmt.Sprintf("s%d.default", i)
		ask(service)
		ask("_a._tcp." + service)
		ask("_b._udp." + service)
		for _, host := range []string{"db-0", "db-1", "my-db-0", "db-u0-0", "db-u1-1", "u1-0", "10-244-0-3"} {
			ask(host + "." + service)
		}
	}
	services, hosts := x.Len()
	out["names"] = [2]int{services, hosts}
	for _, namespace := range []string{"default", "other", "nowhere"} {
		ask(namespace)
	}
	for i := range byte(16) {
		for _, ip := range []netip.Addr{netip.AddrFrom4([4]byte{10, 244, 0, i}), netip.AddrFrom4([4]byte{10, 96, 0, i})} {
			if names := slices.Sorted(slices.Values(x.PTR(ip))); len(names) > 0 {
				out[ip.String()] = names
			}
		}
	}
	return out
}

// The laws, over random histories: an index that followed every change answers
// as a new one; no name stands for an endpoint of another unit but by its full
// name; and an ordinal is the own unit's pod.
func TestLaws(t *testing.T) {
	count := map[Result]int{}
	for seed := range uint64(30) {
		for _, cfg := range []Config{{}, {Services: true}, {Services: true, Strict: true, EmptyNXDomain: true}} {
			w := topologytest.New(seed)
			viewer, kept := topology.NewViewer("n0", topology.Options{}), New(cfg)
			for step := range 100 {
				w.Step()
				snap := w.Builder.Build()
				view := viewer.See(snap)
				kept = kept.Next(view)
				got, want := everything(kept), everything(New(cfg).Next(view))
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d step %d: %v\nfrom nothing: %v", seed, step, got, want)
				}
				for _, a := range got {
					if a, ok := a.(Answer); ok {
						count[a.Result]++
					}
				}
				checkOrdinals(t, seed, snap, view, kept)
				checkHosts(t, seed, kept)
			}
		}
	}
	for _, kind := range []Result{Passed, NXDomain, Found} {
		if count[kind] < 1000 {
			t.Errorf("kind %d was answered %d times: the histories are too tame", kind, count[kind])
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
