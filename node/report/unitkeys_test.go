package report

import (
	"testing"
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
	if got := UnitNotes([]string{"kubernetes.io/hostname", "node-restriction.kubernetes.io/unit"}); len(got) != 0 {
		t.Errorf("notes: %q", got)
	}
}
