package node

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gridmesh/gridmesh/topology"
)

// A Service that is closed to units of another kind, which anybody may write, is no finding
// of a node that is in its own. What is found where it is in none is first to be said to be so:
// a label of a unit brings it that unit's workloads.
func TestAServiceOfOtherUnitsMakesNoNodeUnfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		o := webOnly()
		for _, name := range []string{"a-1", "a-2", "b-1"} {
			labels := map[string]string{"unit": "a"}
			if name != r.cfg.Node {
				labels["shop"] = "s"
			}
			o.Builder().SetNode(&topology.Node{Name: name, Labels: labels})
		}
		keys := `["shop"]`
		o.Builder().SetService(&topology.Service{
			Key: topology.ObjectKey{Namespace: "default", Name: "till"}, TopologyKeys: &keys,
			ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.20")}, Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}},
		})
		r.publish(o)
		if got := r.agent.status(); len(got.Findings) > 0 || len(got.UnitWithout) != 1 || !strings.Contains(strings.Join(got.Notes, "\n"), "the node has no label shop, ") {
			t.Errorf("in a unit of its own: found %+v, without %q, notes %q", got.Findings, got.UnitWithout, got.Notes)
		}
		o.Builder().SetNode(&topology.Node{Name: r.cfg.Node})
		r.publish(o)
		got := r.agent.status().Findings
		if len(got) != 1 || got[0].Kind != noUnit {
			t.Fatalf("in none: found %+v", got)
		}
		empty, unit := strings.Index(got[0].Text, "kubectl label node a-1 shop=)"), strings.Index(got[0].Text, "shop=UNIT")
		if empty < 0 || unit < empty {
			t.Errorf("in none: %s", got[0].Text)
		}
	})
}
