package policy

import (
	_ "embed" // the manifests
	"strings"
)

//go:embed manifests/nodes.yaml
var nodes string

//go:embed manifests/pods.yaml
var pods string

//go:embed manifests/endpointslices.yaml
var endpointSlices string

//go:embed manifests/endpoints.yaml
var endpoints string

//go:embed manifests/votes.yaml
var votes string

// Shield keeps pods of shielded nodes where they are, and in their Services.
func Shield() string { return join(nodes, pods) }

// SecondLine keeps endpoints of shielded nodes where Shield cannot be used, and only there.
func SecondLine() string { return join(endpointSlices, endpoints) }

// Votes holds gridmesh-health and kubelets to what is theirs to write on Nodes.
func Votes() string { return votes }

func join(manifests ...string) string { return strings.Join(manifests, "---\n") }
