package edge

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/topology"
)

// A state file counts only once it has the Service with all its addresses.
func TestKept(t *testing.T) {
	e := &Node{Node: &netlab.Node{Name: "a-1"}, Dir: t.TempDir()}
	here, away := netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("10.244.1.3")
	if e.Kept(DNSState, "default/web", here) == nil {
		t.Error("there is no file")
	}
	b := topology.NewBuilder()
	web := topology.ObjectKey{Namespace: "default", Name: "web"}
	b.SetService(&topology.Service{Key: web})
	b.SetSlice(&topology.Slice{Key: web, Service: "web", Endpoints: []topology.Endpoint{{Addr: here, Ready: true}, {Addr: away}}})
	b.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"unit": "a"}})
	data, err := source.EncodeState(&source.State{Snapshot: b.Build()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(e.Dir, DNSState)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		err  error
		want bool
	}{
		"the ready endpoint":       {e.Kept(DNSState, "default/web", here), true},
		"the Service alone":        {e.Kept(DNSState, "default/web"), true},
		"one that is not ready":    {e.Kept(DNSState, "default/web", here, away), false},
		"another Service":          {e.Kept(DNSState, "other/web"), false},
		"the label of a node":      {e.KeptLabel(DNSState, "a-1", "unit", "a"), true},
		"another label of a node":  {e.KeptLabel(DNSState, "a-1", "unit", "b"), false},
		"the label of no node":     {e.KeptLabel(DNSState, "a-2", "unit", "a"), false},
		"a file that is not there": {e.Kept(AgentState, "default/web"), false},
	} {
		if (tc.err == nil) != tc.want {
			t.Errorf("%s: %v", what, tc.err)
		}
	}
	if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if e.Kept(DNSState, "default/web") == nil {
		t.Error("half a file was taken for whole")
	}
}
