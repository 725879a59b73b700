package node

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
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

// Of an own Node that does not say which pod CIDRs it has, while some are known, is told why, once,
// and how old those are: also where a run before knew them.
func TestAnOwnNodeThatSaysNothingIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		pods := prefixes("10.244.1.0/24")
		r.api = &nodetest.API{Pods: pods}
		r.mustStart(t)
		r.publish(webOnly())
		r.contact()
		says := func(err error, list []netip.Prefix, want string) {
			t.Helper()
			before := r.log.String()
			r.api.Set(func(a *nodetest.API) { a.Away, a.Pods = err, list })
			after(time.Hour)
			var got []string
			for line := range strings.Lines(strings.TrimPrefix(r.log.String(), before)) {
				if strings.Contains(line, "pod CIDR") {
					got = append(got, line)
				}
			}
			if len(got) != 1 || !regexp.MustCompile(want).MatchString(got[0]) {
				t.Errorf("said are %q, want %q", got, want)
			}
		}
		says(errBroken, pods, `level=WARN .* those that it had are in force" err="broken for the test" away=[56]m`)
		says(nil, nil, `level=WARN .* those that it had are in force" err="there is none in its Node" away=1h`)
		says(nil, prefixes("10.244.2.0/24"), `level=INFO msg="pod CIDRs are known"`)
		r.stop()

		after(30 * time.Minute)
		r.again()
		r.api = &nodetest.API{Latency: time.Second, Away: errBroken}
		r.mustStart(t)
		says(errBroken, nil, `level=WARN .* those that a run before knew are in force" err="broken for the test" away=30m`)
		if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Pods, prefixes("10.244.2.0/24")) {
			t.Errorf("in force are %v", rules.Pods)
		}
	})
}
