package node

import "errors"

// ErrUnfit is why an agent does not start on a node: kube-proxy's rules, a
// second agent, and where that is wanted NetworkPolicies.
var ErrUnfit = errors.New("this node is not fit")

// ErrNotKnown is why Parts.EnvoyServes cannot say whether Envoy serves: this process,
// or the node, has not what it takes to ask. It says nothing of Envoy.
var ErrNotKnown = errors.New("it is not known whether Envoy serves")
