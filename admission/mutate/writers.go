package mutate

import "slices"

// Resource is what is written, as rules of admission name it.
type Resource string

// The resources that are looked at. Nodes are never nodes/status: the controller manager
// compares what it finds there with what it wrote, and would write again for ever.
const (
	Nodes           Resource = "nodes"
	Pods            Resource = "pods/status"
	EndpointSlices  Resource = "endpointslices"
	LegacyEndpoints Resource = "endpoints"
)

// manager is the controller manager where its controllers have no accounts of their own.
const manager = "system:kube-controller-manager"

// accounts are those that they have with --use-service-account-credentials.
var accounts = map[Resource]string{
	Nodes:           "system:serviceaccount:kube-system:node-controller",
	Pods:            "system:serviceaccount:kube-system:node-controller",
	EndpointSlices:  "system:serviceaccount:kube-system:endpointslice-controller",
	LegacyEndpoints: "system:serviceaccount:kube-system:endpoint-controller",
}

// Writers are the users whose updates of a resource are looked at, none for any other
// resource. A kubelet is never one of them: what it says of its pods stays.
func Writers(r Resource) []string {
	account, ok := accounts[r]
	if !ok {
		return nil
	}
	return []string{manager, account}
}

// Writes reports whether an update of a resource by a user is looked at.
func Writes(user string, r Resource) bool { return slices.Contains(Writers(r), user) }
