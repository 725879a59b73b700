package main

import (
	"fmt"
	"strings"

	"github.com/gridmesh/gridmesh/test/healthsim/edgehealth"
	"github.com/gridmesh/gridmesh/test/healthsim/ours"
	"github.com/gridmesh/gridmesh/test/healthsim/sim"
	"github.com/gridmesh/gridmesh/test/healthsim/swim"
)

// protocol is what a unit can run.
type protocol struct {
	name, title string
	begin       func(w *sim.World) sim.Protocol
	most        int // nodes of which its costs are simulated: more take too long
}

var protocols = []protocol{
	{"ours", "gridmesh", ours.New, 5000},
	{"edgehealth", "SuperEdge's rule", edgehealth.New, 500},
	{"swim", "SWIM", swim.New, 5000},
}

func protocolNamed(name string) (protocol, error) {
	var names []string
	for _, p := range protocols {
		if p.name == name {
			return p, nil
		}
		names = append(names, p.name)
	}
	return protocol{}, fmt.Errorf("--protocol %s: there are %s (memberlist runs in tests alone: make healthsim)", name, strings.Join(names, ", "))
}
