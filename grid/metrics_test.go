package grid

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// One of the replicas acts: who watches them sees that there is one.
func TestLeadingIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	leading := func() float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "gridmesh_controller_leading" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	end := func() {}
	m := NewMetrics(registry)
	for _, step := range []struct {
		do   func()
		want float64
	}{{func() {}, 0}, {func() { end = m.Lead() }, 1}, {func() { end() }, 0}} {
		step.do()
		if got := leading(); got != step.want {
			t.Errorf("leading is %v, want %v", got, step.want)
		}
	}
}
