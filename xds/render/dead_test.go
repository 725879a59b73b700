package render

import (
	"fmt"
	"testing"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/gridmesh/gridmesh/topology"
)

// An endpoint that is voted dead is unhealthy to Envoy, in its tier, and a version of its own;
// all others are as they were.
func TestTheDeadAreUnhealthy(t *testing.T) {
	said := func(r Resource) (list []string) {
		for _, locality := range r.Message().(*endpoint.ClusterLoadAssignment).GetEndpoints() {
			for _, e := range locality.GetLbEndpoints() {
				list = append(list, fmt.Sprint(locality.GetPriority(), " ", e.GetHealthStatus()))
			}
		}
		return list
	}
	before, voted := tiers(), tiers()
	voted[0].Endpoints[1].Dead = true
	was, is := Endpoints("10.96.0.10:80", topology.TCP, before), Endpoints("10.96.0.10:80", topology.TCP, voted)
	if got := fmt.Sprint(said(was)); got != "[0 UNKNOWN 0 UNKNOWN 1 UNKNOWN]" {
		t.Errorf("nobody is dead: %s", got)
	}
	if got := fmt.Sprint(said(is)); got != "[0 UNKNOWN 0 UNHEALTHY 1 UNKNOWN]" {
		t.Errorf("one is dead: %s", got)
	}
	voted[0].Endpoints[0].Dead, voted[0].Endpoints[1].Dead = true, false
	other := Endpoints("10.96.0.10:80", topology.TCP, voted)
	if was.Version == is.Version || is.Version == other.Version || was.Version == other.Version {
		t.Errorf("versions %s, %s, %s", was.Version, is.Version, other.Version)
	}
	voted[0].Endpoints[0].Dead = false
	if back := Endpoints("10.96.0.10:80", topology.TCP, voted); back.Version != was.Version {
		t.Errorf("alive again: version %s, was %s", back.Version, was.Version)
	}
}
