// Package answer decides what grid names resolve to, seen from one node. It is
// pure: a snapshot and the node's view of it in, names and addresses out. Names
// are relative to the cluster's zone, in lower case, without a dot at the end.
//
// It speaks of the names of grids: headless Services with a unit key, whose
// name stands for the endpoints of the own unit, and the ordinals of
// StatefulSetGrids. With Config.Services it speaks of ClusterIP Services too.
// What it does not speak of is for others to answer.
package answer
