package source

import (
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

func TestSubset(t *testing.T) {
	whole := sample().Snapshot
	web := topology.ObjectKey{Namespace: "default", Name: "web"}
	some := Subset(whole, "b-1", func(s *topology.Service) *topology.Service {
		if s.Key != web {
			return nil
		}
		return s
	})
	if !some.Partial || whole.Partial {
		t.Errorf("partial: the subset %v, what it was taken from %v", some.Partial, whole.Partial)
	}
	if keys := some.Services.SortedKeys(topology.ObjectKey.Compare); !slices.Equal(keys, []topology.ObjectKey{web}) {
		t.Errorf("it has %v, want %v alone", keys, web)
	}
	entry, _ := some.Services.Get(web)
	if entry == nil || entry.Service == nil || len(entry.Slices) != 1 {
		t.Errorf("the Service came as %+v", entry)
	}
	if nodes := some.Nodes.SortedKeys(strings.Compare); !slices.Equal(nodes, []string{"a-1", "b-1"}) {
		t.Errorf("it has the nodes %v", nodes)
	}
	if !slices.Equal(some.ServiceCIDRs, whole.ServiceCIDRs) {
		t.Errorf("it has the ranges %v", some.ServiceCIDRs)
	}
	none := Subset(whole, "b-1", func(*topology.Service) *topology.Service { return nil })
	if nodes := none.Nodes.SortedKeys(strings.Compare); !slices.Equal(nodes, []string{"b-1"}) {
		t.Errorf("without Services it has the nodes %v, want its own", nodes)
	}
}
