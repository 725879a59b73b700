package topology_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

// had is what a Service has, of its ClusterIPs and besides.
func had(s *ServiceView) (list []string) {
	for _, ip := range s.ClusterIPs {
		list = append(list, ip.String())
	}
	for _, o := range s.Outside {
		list = append(list, fmt.Sprint(o.Frontend, o.Kind))
	}
	return list
}

// The law: where some Services are kept and others are not, those have what they had, no more
// and no less, whoever they quarrelled with, and however little room there was for all. What
// is kept of what was kept is the same.
func TestWhatIsKeptHasWhatItHad(t *testing.T) {
	quarrels := 0
	for seed := range uint64(36) {
		opts, w := Options{Datapath: Datapath(seed % 4), Owners: true}, topologytest.New(seed)
		chance := rand.New(rand.NewPCG(seed, 4))
		looks := opts
		if opts.Datapath == DatapathNone { // which is kept all the same
			looks.Outside = true
		}
		viewer := func(opts Options) *Viewer {
			v := NewViewer("n0", opts)
			if seed%3 > 0 {
				v.Bound(int(seed%3)+2, 7)
			}
			return v
		}
		keeps, booted := viewer(opts), viewer(looks)
		for step := range 40 {
			for range 1 + w.IntN(3) {
				w.Step()
			}
			at, all := fmt.Sprintf("seed %d step %d", seed, step), w.Builder.Build()
			keeps.See(all)
			live, some := viewer(looks).See(all), NewBuilder()
			for _, e := range all.Services.All() {
				if e.Service == nil || chance.IntN(2) == 0 {
					continue
				}
				s := keeps.Own(e.Service)
				if s != e.Service {
					quarrels++
				}
				some.SetService(s)
				for _, slice := range e.Slices {
					some.SetSlice(slice)
				}
			}
			kept := some.Build()
			view, again := booted.See(kept), viewer(opts)
			if !reflect.DeepEqual(view.Sorted(), viewer(looks).See(kept).Sorted()) {
				t.Fatalf("%s: of what is kept, after what was there before, the view differs from a new one", at)
			}
			again.See(kept)
			for key, s := range view.Services.All() {
				was, _ := live.Service(key)
				if got, want := had(s), had(was); !slices.Equal(got, want) {
					t.Fatalf("%s: %s has %q, it had %q (%+v, %v)", at, key, got, want, s.Service.Others, s.Problems)
				}
				if own := again.Own(s.Service); !own.Equal(s.Service) {
					t.Fatalf("%s: %s is kept as %+v, and then as %+v", at, key, s.Service, own)
				}
			}
			if !reflect.DeepEqual(booted.See(all).Sorted(), live.Sorted()) {
				t.Fatalf("%s: when all are there again the view differs from a new one", at)
			}
		}
	}
	if quarrels < 300 {
		t.Errorf("others had something of %d Services: the law is hardly tried", quarrels)
	}
}

// Who has no part of a namespace's room has none because others are missing, and what it would
// ask for then is not looked at.
func TestAPortionIsKept(t *testing.T) {
	viewer := NewViewer("n0", Options{Datapath: DatapathAuto})
	viewer.Bound(10, 15)
	b := NewBuilder()
	add := func(name string, created int64, ip, external string) {
		s := &Service{Key: ObjectKey{"shop", name}, Created: created, ClusterIPs: []netip.Addr{netip.MustParseAddr(ip)}, Exposure: &Exposure{ExternalIPs: []netip.Addr{netip.MustParseAddr(external)}}}
		for p := range uint16(10) {
			s.Ports = append(s.Ports, ServicePort{Name: fmt.Sprint(p), Protocol: TCP, Port: 80 + p})
		}
		b.SetService(s)
	}
	add("a", 1, "10.96.0.1", "192.0.2.1")
	add("b", 2, "10.96.0.2", "192.0.2.2")
	add("c", 3, "10.96.0.3", "192.0.2.1") // a's
	live := viewer.See(b.Build())
	for name, want := range map[string]int{"a": 10, "b": 5, "c": 0} {
		was, _ := live.Service(ObjectKey{"shop", name})
		alone, booted := NewBuilder(), NewViewer("n0", Options{Datapath: DatapathAuto})
		booted.Bound(10, 15)
		own := viewer.Own(was.Service)
		alone.SetService(own)
		s, _ := booted.See(alone.Build()).Service(was.Key)
		if len(was.Outside) != want || len(s.Outside) != want || len(own.Others) > 0 || !slices.Equal(s.Problems, was.Problems) {
			t.Errorf("%s has %d, then %d, want %d; %v, then %v", name, len(was.Outside), len(s.Outside), want, was.Problems, s.Problems)
		}
	}
}
