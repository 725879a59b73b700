package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// KEP-279: what a kubelet may say of its own Node.
func TestKubeletMaySet(t *testing.T) {
	for key, want := range map[string]bool{
		"unit": true, "example.com/unit": true, "superedge.io/unit": true, "notkubernetes.io/unit": true,
		"topology.kubernetes.io/zone": true, "node.kubernetes.io/unit": true, "x.kubelet.kubernetes.io/unit": true,
		"node-restriction.kubernetes.io/unit": false, "x.node-restriction.kubernetes.io/unit": false,
		"node-role.kubernetes.io/unit": false, "kubernetes.io/unit": false, "apps.k8s.io/unit": false,
	} {
		if got := kubeletMaySet(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	inUse := []string{"kubernetes.io/hostname", "node-restriction.kubernetes.io/unit"}
	if got := UnitNotes(inUse, topology.Viewpoint{Known: true, Values: map[string]string{inUse[0]: "a-1", inUse[1]: "a"}}); len(got) != 0 {
		t.Errorf("notes: %q", got)
	}
}

// A key that Services use and the node has no label of is named, for nobody is
// reached by it; of very many some.
func TestKeysWithoutALabel(t *testing.T) {
	inUse := []string{"kubernetes.io/hostname", "node-restriction.kubernetes.io/unit"}
	const want = "the node has no label kubernetes.io/hostname, node-restriction.kubernetes.io/unit, which Services have in their topologyKeys: by them it reaches nobody"
	if got := UnitNotes(inUse, topology.Viewpoint{Known: true}); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("notes: %q", got)
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("node-restriction.kubernetes.io/%d", i))
	}
	if got := UnitNotes(many, topology.Viewpoint{Known: true}); len(got) != 1 || len(got[0]) > 500 || !strings.Contains(got[0], ", …") {
		t.Errorf("notes: %q", got)
	}
	if got := UnitNotes(inUse, topology.Viewpoint{Name: "a-1"}); len(got) != 0 {
		t.Errorf("of a node that is not known: %q", got)
	}
}
