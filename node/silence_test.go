package node

import (
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
)

// Who watches a node sees since when the cloud has been silent, where there is one.
func TestSilenceIsCounted(t *testing.T) {
	const name = "gridmesh_last_contact_timestamp_seconds"
	shown := func(r *rig) (value float64, there bool) {
		t.Helper()
		p := r.parts()
		if _, err := New(r.cfg, p); err != nil {
			t.Fatal(err)
		}
		r.source.Contacted(time.Unix(1_800_000_000, 500_000_000))
		families, err := p.Registry.Gather()
		must(t, err)
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetGauge().GetValue(), true
			}
		}
		return 0, false
	}
	r := newRig(t)
	if v, there := shown(r); there {
		t.Errorf("without a cloud %s is %v", name, v)
	}
	r.again()
	r.api = &nodetest.API{}
	if v, _ := shown(r); v != 1_800_000_000.5 {
		t.Errorf("%s is %v", name, v)
	}
}
