package policy

import (
	_ "embed" // the manifests
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed manifests/nodetables.yaml
var nodeTables []byte

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

//go:embed manifests/leases.yaml
var leases string

// NodeTables is the CustomResourceDefinition of what the policies have for parameters.
func NodeTables() []byte { return nodeTables }

// Shield keeps pods of shielded nodes where they are, and in their Services.
func Shield() string { return join(nodes, pods) }

// SecondLine keeps endpoints of shielded nodes where Shield cannot be used, and only there.
func SecondLine() string { return join(endpointSlices, endpoints) }

// Votes holds gridmesh-health and kubelets to what is theirs to write on Nodes, and of Leases.
func Votes() string { return join(votes, leases) }

// Namespace is where the manifests have the account that votes, its Leases, and the parameters.
const Namespace = "gridmesh"

// Objects are those of Shield and Votes for another Namespace, each policy before its binding.
func Objects(namespace string) ([]map[string]any, error) {
	text := strings.NewReplacer(
		" namespace: "+Namespace+",", " namespace: "+namespace+",",
		"system:serviceaccount:"+Namespace+":", "system:serviceaccount:"+namespace+":",
		"kubernetes.io/metadata.name: "+Namespace+"}", "kubernetes.io/metadata.name: "+namespace+"}",
	).Replace(join(Shield(), Votes()))
	var list []map[string]any
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var obj map[string]any
		if err := yaml.UnmarshalStrict([]byte(doc), &obj); err != nil {
			return nil, fmt.Errorf("read the policies: %w", err)
		}
		list = append(list, obj)
	}
	return list, nil
}

func join(manifests ...string) string { return strings.Join(manifests, "---\n") }
