package node

import (
	"testing"

	"github.com/gridmesh/gridmesh/capture"
)

// A scrape finds what there is also while a look replaces it: an alert's time would
// begin anew with each that finds none.
func TestAScrapeBesideALook(t *testing.T) {
	r := newRig(t)
	var err error
	r.agent, err = New(r.cfg, r.parts())
	must(t, err)
	list := []capture.Finding{{Kind: capture.PolicyEngine, Text: "one"}, {Kind: capture.PolicyEngine, Text: "two"}}
	r.agent.show(r.agent.found.replaceNode(list))
	done := make(chan struct{})
	looks := make(chan struct{})
	go func() {
		defer close(looks)
		for {
			select {
			case <-done:
				return
			default:
				r.agent.show(r.agent.found.replaceNode(list))
			}
		}
	}()
	for range 2000 {
		families, err := r.agent.parts.Registry.Gather()
		must(t, err)
		n := -1.0
		for _, f := range families {
			if f.GetName() == "gridmesh_node_findings" {
				n = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if n != 2 {
			t.Errorf("%v are counted, want 2", n)
			break
		}
	}
	close(done)
	<-looks
	r.agent.show(r.agent.found.replaceNode(nil))
	families, err := r.agent.parts.Registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "gridmesh_node_findings" {
			t.Errorf("counted is what is gone: %v", f)
		}
	}
}
