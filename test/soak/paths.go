package soak

import (
	"errors"
	"fmt"

	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// takesPaths reports where an agent of two paths serves by another than it is to, by what
// it knows of Services and NetworkPolicies.
func (s *Soak) takesPaths(node string, r *report.Report) error {
	snap, ok := s.sockets[node].Get()
	if !ok {
		return errors.New("its agent has said nothing yet")
	}
	want := pathsOf(snap, r.Policies)
	want.Refused, want.RefusedEnvoy = refusedOf(snap, node, r.Policies)
	if *r.Paths != want {
		return fmt.Errorf("it serves by the paths %s, and is to serve by %s (NetworkPolicies: %v)", asJSON(r.Paths), asJSON(want), r.Policies)
	}
	return nil
}

// refusedOf counts the frontends that a node may use no endpoint of, and of these Envoy's, by
// a view that is made anew: an agent has counted what came and went.
func refusedOf(snap *topology.Snapshot, node string, policies bool) (all, envoys int) {
	var anew report.PathIndex
	p := anew.Next(topology.See(snap, node, topology.Options{Datapath: topology.DatapathAuto, Policies: policies}))
	return p.Refused, p.RefusedEnvoy
}

// pathsOf counts the frontends of each path, refused or not, with --datapath auto, from the flag's
// documentation and not from the code: Envoy's is TCP of ClusterIPs of Services with keys
// and without affinity, while there are no NetworkPolicies; all else is the kernel's.
func pathsOf(snap *topology.Snapshot, policies bool) (p report.Paths) {
	for _, e := range snap.Services.All() {
		if e.Service == nil {
			continue
		}
		byEnvoy := !policies && e.Service.TopologyKeys != nil && e.Service.Affinity == 0
		for range e.Service.ClusterIPs { // none of what is headless or foreign
			for _, port := range e.Service.Ports {
				if byEnvoy && port.Protocol == topology.TCP {
					p.Envoy++
				} else {
					p.Kernel++
				}
				if port.NodePort != 0 {
					p.Kernel++
				}
			}
		}
	}
	return p
}
