package node

import "errors"

// ErrUnfit is why an agent does not start on a node: kube-proxy's rules, a
// second agent, and where that is wanted NetworkPolicies.
var ErrUnfit = errors.New("this node is not fit")
