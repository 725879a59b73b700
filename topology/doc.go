// Package topology decides who may answer.
//
// A Snapshot is an immutable state of Services, EndpointSlices and Nodes. A
// Viewpoint is from where one looks: the node's name and the values of the
// topology keys in use. A View is what that viewpoint may reach, and in which
// order: every frontend of every Service with its tiers.
//
// The package is pure: no I/O, no clock, no Kubernetes types. Everything that
// serves traffic or answers questions (xDS, capture, DNS, the lens) renders a
// View; none of them decides anything again.
//
// Read types.go first, then keys.go (the topologyKeys annotation), rules.go
// (the rules themselves) and viewer.go (the incremental view).
package topology
