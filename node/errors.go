package node

import "errors"

// ErrUnfit is why an agent does not run on a node: kube-proxy's rules,
// NetworkPolicies, a second agent.
var ErrUnfit = errors.New("this node is not fit")
