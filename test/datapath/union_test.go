package datapath

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/leaks"
)

// With --topology-keys=union a node reads several keys as SuperEdge did: whoever
// shares any of them, "*" or a mistake among them means everybody. Its neighbour
// goes on with their order.
func TestUnionOfKeys(t *testing.T) {
	leaks.None(t, w.lab, leaks.Services)
	e := named(t, "a-1")
	usual := e.Flags
	restart(t, e, append(slices.Clone(usual), "--topology-keys", "union"))
	t.Cleanup(func() { restart(t, e, usual) })
	f := deploy(t, "union", "")
	var all []entry
	for _, n := range w.lab.Nodes() {
		all = append(all, on(n.Name, isReady))
	}
	const unit, everybody = "a-1 a-2", "a-1 a-2 b-1 b-2 b-3"
	for i, tc := range []struct{ keys, union, ordered string }{
		{`["unit"]`, unit, unit},
		{`["kubernetes.io/hostname","unit"]`, unit, "a-2"},
		{`["unit","kubernetes.io/hostname"]`, unit, unit},
		{`["kubernetes.io/hostname","*"]`, everybody, "a-2"},
		{`["no/good key"]`, everybody, "a-2"},
	} {
		t.Run(tc.keys, func(t *testing.T) {
			s := service{name: fmt.Sprintf("union-%d", i), keys: tc.keys}
			s = publish(t, f, s, "", sliceOf(f, s.name, s.name, false, all...)+sliceOf(f, s.name, s.name+"-6", true, all...), "a-1", "a-2")
			for from, want := range map[string]string{"a-1": tc.union, "a-2": tc.ordered} {
				for ip := range s.ips {
					if err := answeredBy(f, from, "tcp", s.at(ip), want); err != nil {
						t.Errorf("from a pod on %s to %s: %v", from, s.at(ip), err)
					}
				}
			}
		})
	}
}
