package soak

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/test/soak/script"
)

// Where the guard of a node is away for one round of its probes, packets of
// the node and of its pod cross the border, of both protocols and families, and
// nothing does where it is not; a node whose packets do not come to the border
// is told from one that leaks nothing.
func TestWhatLeaksIsSeen(t *testing.T) {
	if os.Getenv(playVariable) == "" {
		var out bytes.Buffer
		if err := inside(&out, aTest, "-test.run=^"+t.Name()+"$"); err != nil {
			t.Errorf("%v:\n%s", err, out.String())
		}
		return
	}
	s := bareLab(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	round := func() (packets map[string]uint64) {
		t.Helper()
		for node := range s.c.Nodes {
			must(s.probes.again(t.Context(), node))
		}
		must(s.arrived(markWithin))
		list, err := s.borders.take()
		must(err)
		packets = map[string]uint64{}
		for _, c := range list {
			packets[c.node] += c.packets
		}
		return packets
	}
	s.probes.start(t.Context(), t.Logf)
	if crossed := round(); len(crossed) > 0 {
		t.Fatalf("guarded nodes leak: %v", crossed)
	}
	for what, node := range map[string]string{"routed pods": "a-1", "pods on a bridge": "b-1"} {
		ns := s.c.Nodes[node].NS
		must(flushRules(ns))
		must(s.probes.again(t.Context(), node))
		must(guard(ns))
		crossed := round()
		const least = 8 // of node and pod, TCP and UDP, IPv4 and IPv6
		if crossed[node] < least || len(crossed) > 1 {
			t.Errorf("%s: the guard of %s was away, and %v crossed; want at least %d packets from there", what, node, crossed, least)
		}
		if crossed := round(); len(crossed) > 0 {
			t.Errorf("%s: the guard of %s is back, and %v crossed", what, node, crossed)
		}
	}
	s.probes.stop()
	if rounds, pause := s.probes.sent(); rounds == 0 || pause == 0 {
		t.Errorf("%d rounds, the longest pause between two %s", rounds, pause)
	}

	must(s.c.Lab.Node("b-1").Cut())
	if err := s.arrived(200 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "b-1") {
		t.Errorf("b-1 is cut off, and that is what is said of it: %v", err)
	}
	must(s.c.Lab.Node("b-1").Heal())
	must(s.arrived(markWithin))
}

// bareLab is two units of a node with a pod each, where nothing runs but
// a guard.
func bareLab(t *testing.T) *Soak {
	t.Helper()
	lab, err := netlab.Build(netlab.Config{Units: []netlab.UnitConfig{{Name: "a", Nodes: []netlab.PodNetwork{netlab.Routed}}, {Name: "b", Nodes: []netlab.PodNetwork{netlab.Bridged}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Soak{
		world: script.World{Units: []script.Unit{{Name: "a", Nodes: []string{"a-1"}}, {Name: "b", Nodes: []string{"b-1"}}}},
		say:   t.Logf, c: &cluster.Cluster{Lab: lab, Nodes: map[string]*cluster.Node{}}, pods: map[string]*pod{},
	}
	for _, n := range lab.Nodes() {
		p, err := n.AddPod("pod-" + n.Name)
		if err != nil {
			t.Fatal(err)
		}
		s.c.Nodes[n.Name] = &cluster.Node{Node: &edge.Node{Node: n}}
		s.pods[n.Name] = &pod{node: n.Name, ns: p.NS}
		if err := guard(n.NS); err != nil {
			t.Fatal(err)
		}
	}
	if s.borders, err = s.watchBorders(); err == nil {
		s.probes, err = s.openProbes()
	}
	if err != nil {
		t.Fatal(err)
	}
	// A network that has just been made resolves its neighbours, and IPv6
	// looks whether its addresses are taken.
	ctx, cancel := context.WithTimeout(t.Context(), markWithin)
	defer cancel()
	for s.arrived(time.Second) != nil {
		if ctx.Err() != nil {
			t.Fatal(s.arrived(time.Second))
		}
	}
	return s
}

// guard drops what is addressed to Services.
func guard(ns *netlab.NS) error {
	conn, err := ns.NFT()
	if err != nil {
		return err
	}
	t := conn.AddTable(&nftables.Table{Name: "guard", Family: nftables.TableFamilyINet})
	for name, hook := range map[string]*nftables.ChainHook{"forward": nftables.ChainHookForward, "output": nftables.ChainHookOutput} {
		c := conn.AddChain(&nftables.Chain{Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter})
		for _, p := range []netip.Prefix{netlab.ServiceCIDR4, netlab.ServiceCIDR6} {
			conn.AddRule(&nftables.Rule{Table: t, Chain: c, Exprs: append(inPrefix(p, false), &expr.Verdict{Kind: expr.VerdictDrop})})
		}
	}
	return conn.Flush()
}

// What was taken from a node stays away while its agent does not run, and for
// a grace more; then packets that leave unserved are its own fault.
func TestLeaksAreExcusedWhileNobodyCanMend(t *testing.T) {
	begin := time.Now()
	at := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	bare := model.Trouble{Node: "a-1", Effect: model.Bare, From: at(10), To: at(25)}
	absent := model.Trouble{Node: "a-1", Effect: model.Absent, From: at(20), To: at(40)}
	for _, tc := range []struct {
		troubles model.Troubles
		node     string
		from     int
		want     bool
	}{
		{nil, "a-1", 12, false},
		{model.Troubles{bare}, "a-1", 12, true},
		{model.Troubles{bare}, "a-2", 12, false},
		{model.Troubles{bare}, "a-1", 36, false},
		{model.Troubles{absent}, "a-1", 30, false},
		{model.Troubles{bare, absent}, "a-1", 36, true},
		{model.Troubles{bare, absent}, "a-1", 42, true},
		{model.Troubles{bare, absent}, "a-1", 50, false},
	} {
		s := &Soak{troubles: tc.troubles}
		if got := s.mayCross(crossing{node: tc.node, from: at(tc.from), to: at(tc.from + 1)}); got != tc.want {
			t.Errorf("%v: a packet from %s at %d s may cross: %v", tc.troubles, tc.node, tc.from, got)
		}
	}
}
