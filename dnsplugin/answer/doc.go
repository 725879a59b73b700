// Package answer makes DNS answers of a node's view. It is pure: a view in,
// names and addresses out. Names are relative to the cluster's zone, in lower
// case, without a dot at the end.
//
// Who answers is decided by package topology: which endpoints a name stands
// for, which ordinal a pod has, and what strict hides. This package makes
// records of it, for the names of grids: headless Services with a unit key,
// whose name stands for the endpoints of the own unit, and the ordinals of
// StatefulSetGrids. With Config.Services it answers ClusterIP Services too, and
// PTR. All other names are the next plugin's.
//
// index.go keeps the names as views go by, service.go makes those of one
// Service, lookup.go and ptr.go answer questions, targets.go gathers what one for
// SRV is answered with, addresses.go for A and AAAA, ptr_tree.go has the names of an
// address, hosts.go writes a hosts file, explain.go says why.
// explain_port.go does so for the names of ports.
package answer
