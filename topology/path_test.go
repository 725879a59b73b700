package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// What serves each frontend, by what the node and the Service chose.
func TestPaths(t *testing.T) {
	keys := func(s *Service) { text := `["site"]`; s.TopologyKeys = &text }
	typo := func(s *Service) { text := `site`; s.TopologyKeys = &text }
	sticky := func(s *Service) { keys(s); s.Affinity = 10800; s.Unserved = UnservedAffinity | UnservedNodePorts }
	wants := func(d Datapath) func(s *Service) { return func(s *Service) { keys(s); s.Datapath = d } }
	none := func(*Service) {}
	for name, c := range map[string]struct {
		chosen Datapath
		change func(s *Service)
		want   string // of tcp, udp, sctp, and the node port
	}{
		"one path, no keys":       {DatapathNone, none, "envoy envoy none none"},
		"one path, and a choice":  {DatapathNone, wants(DatapathKernel), "envoy envoy none none; metadata.annotations[gridmesh.io/datapath]"},
		"one path, affinity":      {DatapathNone, sticky, "envoy envoy none none; spec.sessionAffinity; spec.ports[].nodePort"},
		"auto, no keys":           {DatapathAuto, none, "kernel kernel kernel kernel"},
		"auto, keys":              {DatapathAuto, keys, "envoy kernel kernel kernel"},
		"auto, malformed":         {DatapathAuto, typo, "envoy kernel kernel kernel"},
		"auto, affinity":          {DatapathAuto, sticky, "kernel kernel kernel kernel"},
		"auto, kernel":            {DatapathAuto, wants(DatapathKernel), "kernel kernel kernel kernel"},
		"envoy, no keys":          {DatapathEnvoy, none, "envoy kernel kernel kernel"},
		"envoy, affinity":         {DatapathEnvoy, sticky, "envoy kernel kernel kernel; spec.sessionAffinity"},
		"envoy, auto":             {DatapathEnvoy, wants(DatapathAuto), "envoy kernel kernel kernel"},
		"auto, policies":          {DatapathAuto, keys, "kernel kernel kernel kernel"},
		"auto, policies, auto":    {DatapathKernel, wants(DatapathAuto), "kernel kernel kernel kernel"},
		"auto, policies, envoy":   {DatapathAuto, wants(DatapathEnvoy), "kernel kernel kernel kernel; metadata.annotations[gridmesh.io/datapath]"},
		"kernel, policies, envoy": {DatapathKernel, wants(DatapathEnvoy), "kernel kernel kernel kernel; metadata.annotations[gridmesh.io/datapath]"},
		"envoy, policies":         {DatapathEnvoy, keys, "envoy kernel kernel kernel"},
		"one path, policies":      {DatapathNone, keys, "envoy envoy none none"},
		"kernel, keys":            {DatapathKernel, keys, "kernel kernel kernel kernel"},
		"kernel, envoy":           {DatapathKernel, wants(DatapathEnvoy), "envoy kernel kernel kernel"},
	} {
		d := newDoors()
		d.service("web", func(s *Service) {
			s.Ports = append(s.Ports, ServicePort{Name: "u", Protocol: UDP, Port: 80}, ServicePort{Name: "s", Protocol: SCTP, Port: 80})
			c.change(s)
		})
		sv, _ := See(d.Build(), "a1", Options{Datapath: c.chosen, Policies: strings.Contains(name, "policies"), Outside: true}).Service(ObjectKey{"default", "web"})
		var list []string
		for _, f := range sv.Frontends {
			list = append(list, f.Path.String())
		}
		got := strings.Join(append(list, sv.Outside[0].Path.String()), " ")
		for _, n := range sv.Notices() {
			got += "; " + n.Field
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if near := sv.Near != RankNone; near != (sv.Keys.Mode != NoKeys) {
			t.Errorf("%s: near %v, whatever serves it", name, near)
		}
	}
}

// SCTP is served where the kernel is.
func TestSCTP(t *testing.T) {
	d := newDoors()
	d.SetSlice(&Slice{
		Key: ObjectKey{"default", "web-sctp"}, Service: "web", Ports: []SlicePort{{Name: "s", Protocol: SCTP, Port: 7000}},
		Endpoints: []Endpoint{{Addr: netip.MustParseAddr("10.1.0.9"), Node: "a1", Ready: true}},
	})
	d.service("web", func(s *Service) { s.Ports = []ServicePort{{Name: "s", Protocol: SCTP, Port: 80, NodePort: 30080}} })
	for _, c := range []struct {
		chosen Datapath
		want   string // tiers, of the node port, and problems
	}{{DatapathNone, "; 9; 1"}, {DatapathAuto, "9; 9; 0"}} {
		sv, _ := See(d.Build(), "a1", Options{Datapath: c.chosen, Outside: true}).Service(ObjectKey{"default", "web"})
		if got := fmt.Sprintf("%s; %s; %d", tell(sv.Frontends[0].Tiers), tell(sv.Outside[0].Tiers), len(sv.Problems)); got != c.want {
			t.Errorf("datapath %q: %s, want %s", c.chosen, got, c.want)
		}
	}
}

// A path that cannot tell who answers takes a farther tier that is ready before a
// nearer one that ends; the view's order, which is Envoy's, stays.
func TestByReadiness(t *testing.T) {
	d := newDoors("a1", "a2")
	d.service("web", func(s *Service) { text := `["site","*"]`; s.TopologyKeys = &text })
	for _, c := range []struct{ node, want, ordered string }{{"a1", "1 2 > 3", "3 > 1 2"}, {"b1", "3 > 1 2", "3 > 1 2"}} {
		sv, _ := See(d.Build(), c.node, Options{Datapath: DatapathAuto}).Service(ObjectKey{"default", "web"})
		tiers := sv.Frontends[0].Tiers
		before := slices.Clone(tiers)
		if got := tell(ByReadiness(tiers)); got != c.ordered || tell(tiers) != c.want || tell(before) != c.want {
			t.Errorf("%s: %s by readiness of %s, want %s of %s", c.node, got, tell(tiers), c.ordered, c.want)
		}
	}
}

func TestParseDatapath(t *testing.T) {
	for _, d := range []Datapath{DatapathAuto, DatapathEnvoy, DatapathKernel} {
		if got, err := ParseDatapath(d.String()); got != d || err != nil {
			t.Errorf("%s: %v, %v", d, got, err)
		}
	}
	for _, text := range []string{"", "Envoy", "none"} {
		if got, err := ParseDatapath(text); err == nil || got != DatapathNone {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// checkPath says for each kind of frontend what serves it, and for each tier
// whether anything in it is ready.
func checkPath(t *testing.T, s *Service, sv *ServiceView, f FrontendView, opts Options, at string) {
	t.Helper()
	chosen := opts.Datapath
	if chosen != DatapathNone && s.Datapath != DatapathNone {
		chosen = s.Datapath
	}
	want := PathKernel
	switch {
	case chosen == DatapathNone && f.Protocol == SCTP:
		want = PathNone
	case chosen == DatapathNone:
		want = PathEnvoy
	case f.Protocol != TCP || chosen == DatapathKernel:
	case chosen == DatapathEnvoy || sv.Keys.Mode != NoKeys && s.Affinity == 0:
		want = PathEnvoy
	}
	if f.Path != want {
		t.Fatalf("%s: %s %s takes %s, the twin says %s", at, sv.Key, f.Frontend, f.Path, want)
	}
	ordered := ByReadiness(f.Tiers)
	sorted := slices.IsSortedFunc(ordered, func(a, b Tier) int {
		switch {
		case a.Terminating == b.Terminating:
			return 0
		case a.Terminating:
			return 1
		}
		return -1
	})
	if len(ordered) != len(f.Tiers) || !sorted {
		t.Fatalf("%s: %s %s: %v by readiness of %v", at, sv.Key, f.Frontend, ordered, f.Tiers)
	}
}
