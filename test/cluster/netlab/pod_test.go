package netlab_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
)

var nodes []*netlab.Node

func TestMain(m *testing.M) {
	sandbox.Run(func() int {
		l, err := netlab.Build(netlab.Config{Units: []netlab.UnitConfig{{Name: "a", Nodes: []netlab.PodNetwork{netlab.Routed, netlab.Bridged}}}})
		if err != nil {
			fmt.Fprintln(os.Stderr, "build the lab:", err)
			return 1
		}
		nodes = l.Nodes()
		return m.Run()
	})
}

// What a killed process of a node left of its pods goes with its successor's
// start: links, names, and no pod of another node. A name that never had a link
// goes when the pod is made again.
func TestStalePodsGo(t *testing.T) {
	for _, n := range nodes {
		for i := range 2 {
			if _, err := n.AddPod(fmt.Sprintf("pod-%s-%d", n.Name, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := netlab.NewNS("pod-unwired"); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		// Another process knows the node by its namespace alone.
		ns, err := netlab.OpenNS(n.Name)
		if err != nil {
			t.Fatal(err)
		}
		again := &netlab.Node{Name: n.Name, NS: ns, PodCIDR: n.PodCIDR, PodCIDR6: n.PodCIDR6, Network: n.Network}
		if _, err := again.AddPod("pod-" + n.Name + "-0"); err == nil {
			t.Errorf("the name of a pod of %s that is there was given twice", n.Name)
		}
		if err := again.RemoveStalePods(); err != nil {
			t.Fatal(err)
		}
		for j, other := range nodes {
			if _, err := os.Stat("/run/netns/pod-" + other.Name + "-1"); errors.Is(err, os.ErrNotExist) != (j <= i) {
				t.Errorf("%s was cleared: a pod's name of %s: %v", n.Name, other.Name, err)
			}
		}
		p, err := again.AddPod("pod-" + n.Name + "-0")
		if err != nil {
			t.Fatalf("a pod is made again: %v", err)
		}
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
		if p, err = again.AddPod("pod-unwired"); err != nil {
			t.Fatalf("a pod is made again whose namespace never had a link: %v", err)
		}
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
	}
}
