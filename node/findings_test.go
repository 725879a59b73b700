package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
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

// What a look shows that ends with an error is added to what was known, and takes the
// place of what was known of its kind: a text that is another each time would fill all.
func TestLooksThatFailFillNothing(t *testing.T) {
	f := &findings{}
	f.replaceNode([]capture.Finding{{Kind: capture.KubeProxy, Text: "kube-proxy"}})
	for i := range 50 {
		f.addNode([]capture.Finding{{Kind: capture.Unseen, Text: fmt.Sprint("try ", i)}})
	}
	want := []capture.Finding{{Kind: capture.KubeProxy, Text: "kube-proxy"}, {Kind: capture.Unseen, Text: "try 49"}}
	if !slices.Equal(f.node, want) {
		t.Errorf("kept are %v, want %v", f.node, want)
	}
}

// A node that the cluster does not have is told, until it does: all that is closed is
// refused there, and that looks as it should be.
func TestANodeThatIsNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		told := func() (list []string) {
			for _, f := range r.agent.status().Findings {
				list = append(list, string(f.Kind))
			}
			return list
		}
		o := nodetest.NewObjects()
		r.publish(o)
		if list := told(); len(list) > 0 {
			t.Errorf("a node like others: %q", list)
		}
		o.Builder().DeleteNode(r.cfg.Node)
		r.publish(o)
		if list := told(); !slices.Equal(list, []string{"own-node"}) {
			t.Errorf("without its Node: %q", list)
		}
		o.Node(r.cfg.Node, "a")
		r.publish(o)
		if list := told(); len(list) > 0 {
			t.Errorf("once it is there: %q", list)
		}
	})
}

// A node that somebody forgot to label refuses all that is closed, as one that is no Node:
// it is told, and counted, until it is labelled or says that it is in no unit.
func TestANodeWithoutItsUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.xds.Connect("1.40.0")
		told := func(labels map[string]string, o *nodetest.Objects) (kinds, why []string) {
			o.Builder().SetNode(&topology.Node{Name: r.cfg.Node, Labels: labels})
			r.publish(o)
			got := r.agent.status()
			for _, f := range got.Findings {
				kinds = append(kinds, string(f.Kind))
			}
			return kinds, got.Degraded(time.Now())
		}
		o := webOnly()
		const want = "this node has no label unit, which most other nodes have"
		if kinds, why := told(nil, o); !slices.Equal(kinds, []string{"no-unit"}) || len(why) != 1 || !strings.HasPrefix(why[0], want) || !strings.Contains(why[0], "kubectl label node a-1 unit=") {
			t.Errorf("without its label: %q, %q", kinds, why)
		}
		if got := r.agent.status(); !slices.Equal(got.UnitWithout, []string{"unit"}) || len(got.Notes) != 1 {
			t.Errorf("without its label: %q, notes %q", got.UnitWithout, got.Notes)
		}
		for _, labels := range []map[string]string{{"unit": "a"}, {"unit": ""}} {
			if kinds, why := told(labels, o); len(kinds)+len(why) > 0 {
				t.Errorf("%v: %q, %q", labels, kinds, why)
			}
		}
		o.Delete("web")
		if kinds, _ := told(nil, o); len(kinds) > 0 {
			t.Errorf("where no Service has the key: %q", kinds)
		}
	})
}
