package soak

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/test/soak/script"
	"github.com/gridmesh/gridmesh/topology"
)

// sticky is a Service with affinity, all of which c-1 and a-1 were told long ago.
func sticky() *Soak {
	s := &Soak{world: script.Small(), history: model.NewHistory("unit"), told: map[string]*model.Told{"a-1": model.NewTold("a-1"), "c-1": model.NewTold("c-1")}}
	s.told["c-1"].Options.Datapath = topology.DatapathAuto
	key := topology.ObjectKey{Namespace: "default", Name: "s0"}
	svc := &topology.Service{Key: key, ClusterIPs: []netip.Addr{frontendOf("s0").Addr()}, Ports: []topology.ServicePort{{Port: 80, Protocol: topology.TCP}}, Affinity: 30}
	long := time.Now().Add(-time.Hour)
	s.history.SetService(long, key, svc)
	b := topology.NewBuilder()
	b.SetService(svc)
	for _, told := range s.told {
		told.Saw(s.history, long, b.Build())
	}
	return s
}

// A client that is answered by another pod is seen, and what is none of it is not.
func TestForgets(t *testing.T) {
	now := time.Now()
	first := dial{node: "c-1", from: "pod c-1", to: frontendOf("s0"), began: now.Add(-20 * time.Second), ended: now.Add(-20 * time.Second), answered: "p"}
	for what, tc := range map[string]struct {
		change func(s *Soak, d *dial)
		want   bool
	}{
		"another pod":             {func(*Soak, *dial) {}, true},
		"the same pod":            {func(_ *Soak, d *dial) { d.answered = "p" }, false},
		"another client":          {func(_ *Soak, d *dial) { d.from = "node c-1" }, false},
		"another protocol":        {func(_ *Soak, d *dial) { d.udp = true }, false},
		"a failure":               {func(_ *Soak, d *dial) { d.err = errBusy }, false},
		"after its time":          {func(_ *Soak, d *dial) { d.began, d.ended = now.Add(10*time.Second), now.Add(10*time.Second) }, false},
		"at the end of its time":  {func(_ *Soak, d *dial) { d.ended = now.Add(9500 * time.Millisecond) }, false},
		"a node without a kernel": {func(_ *Soak, d *dial) { d.node = "a-1" }, false},
		"rules were taken away": {func(s *Soak, _ *dial) {
			s.troubles = model.Troubles{{Node: "c-1", Effect: model.Bare, From: now.Add(-10 * time.Second), To: now}}
		}, false},
		"and those of another": {func(s *Soak, _ *dial) {
			s.troubles = model.Troubles{{Node: "a-1", Effect: model.Bare, From: now.Add(-10 * time.Second), To: now}}
		}, true},
		"its agent ended between": {func(s *Soak, _ *dial) {
			s.troubles = model.Troubles{{Node: "c-1", Effect: model.Absent, From: now.Add(-10 * time.Second), To: now}}
		}, true},
		"a name, and no Service": {func(_ *Soak, d *dial) { d.name = true }, false},
		"the Service just changed": {func(s *Soak, _ *dial) {
			s.history.SetService(now, topology.ObjectKey{Namespace: "default", Name: "s0"}, nil)
		}, false},
	} {
		s, last := sticky(), remembered{}
		d := first
		d.began, d.ended, d.answered = now, now, "q"
		tc.change(s, &d)
		a := first
		a.node = d.node
		if s.forgets(last, &a) {
			t.Errorf("%s: the first answer is wrong", what)
		}
		if got := s.forgets(last, &d); got != tc.want {
			t.Errorf("%s: %v, want %v", what, got, tc.want)
		}
	}
}

// What the flag's documentation says of paths.
func TestPathsOf(t *testing.T) {
	keys := `["unit"]`
	main := []topology.ServicePort{{Name: "main", Port: 80, Protocol: topology.TCP}, {Name: "udp", Port: 80, Protocol: topology.UDP}}
	outside := []topology.ServicePort{{Port: 80, Protocol: topology.TCP, NodePort: 30000}}
	for what, tc := range map[string]struct {
		svc      topology.Service
		policies bool
		want     report.Paths
	}{
		"keys":                      {topology.Service{TopologyKeys: &keys, Ports: main}, false, report.Paths{Envoy: 1, Kernel: 1}},
		"no keys":                   {topology.Service{Ports: main}, false, report.Paths{Kernel: 2}},
		"affinity":                  {topology.Service{TopologyKeys: &keys, Ports: main, Affinity: 5}, false, report.Paths{Kernel: 2}},
		"while there are policies":  {topology.Service{TopologyKeys: &keys, Ports: main}, true, report.Paths{Kernel: 2}},
		"a node port":               {topology.Service{TopologyKeys: &keys, Ports: outside}, false, report.Paths{Envoy: 1, Kernel: 1}},
		"of a Service without keys": {topology.Service{Ports: outside}, false, report.Paths{Kernel: 2}},
	} {
		tc.svc.Key, tc.svc.ClusterIPs = topology.ObjectKey{Namespace: "default", Name: "s0"}, []netip.Addr{frontendOf("s0").Addr()}
		b := topology.NewBuilder()
		b.SetService(&tc.svc)
		b.SetNode(&topology.Node{Name: "c-1", Labels: map[string]string{"unit": "c"}})
		snap := b.Build()
		if got := pathsOf(snap, tc.policies); got != tc.want {
			t.Errorf("%s: %+v, want %+v", what, got, tc.want)
		}
		var index report.PathIndex
		tc.want.Refused, tc.want.RefusedEnvoy = tc.want.Envoy+tc.want.Kernel, tc.want.Envoy // there are no endpoints
		if got := index.Next(topology.See(snap, "c-1", topology.Options{Datapath: topology.DatapathAuto, Policies: tc.policies})); got != tc.want {
			t.Errorf("%s: an agent has %+v, want %+v", what, got, tc.want)
		}
	}
}

// Slots of one frontend differ in nothing but their numbers, by which who came first has
// the first.
func TestAnySlot(t *testing.T) {
	if got := anySlot([]byte{9, 9, 9, 9, 5, 0, 1, 0}); string(got) != string([]byte{9, 9, 9, 9, 0, 0, 1, 0}) {
		t.Errorf("%v", got)
	}
	for set, want := range map[string]bool{"slots4": true, "names6": true, "ends4": false, "front6": false} {
		if numbered(set) != want {
			t.Errorf("keys of %s end with a number: %v", set, !want)
		}
	}
}
