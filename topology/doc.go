// Package topology decides who may answer, for the proxy and for DNS alike.
//
// A Snapshot is an immutable state of Services, EndpointSlices and Nodes. A
// Viewpoint is from where one looks: the node's name and the values of the
// topology keys in use. A View is what that viewpoint may reach, and in which
// order: every frontend of every Service with its tiers, and the endpoints that
// the names of headless and grid Services stand for.
//
// The decision is an ordered list of rules (rules.go), each a file of its own
// (rule_*.go) with the reason that it gives for what it leaves out. The proxy's
// frontends and DNS's names go through the same list.
//
// The package is pure: no I/O, no clock, no Kubernetes types. Everything that
// serves traffic or answers questions (xDS, capture, DNS, gridmesh view)
// renders a View; none of them decides anything again.
//
// Read types.go first, then keys.go (the topologyKeys annotation), rules.go
// and its rules, names.go (DNS), viewer.go (the incremental view) and keyuse.go
// (which keys Services use, and nodes have).
package topology
