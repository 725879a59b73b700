// Package model says what must hold in a soak: who may be answered by whom,
// given what the API server has had and what each node was told of it, and
// which failures are excused by what was being done to a node.
//
// The decision itself is topology.See. What this package adds is time: objects
// of different kinds reach a node in no common order, so at any moment a node
// may have in force any mixture of the versions of objects from the last ones
// that it was seen to know up to the newest.
//
//	history.go, told.go  versions of objects, and who knows which
//	affinity.go          for how long a client keeps who answers it
//	held.go              what a node may hold after an outage
//	explain.go           by what it was judged
//	unready.go           who said of which pods that they are not ready
//	trouble.go           what was being done, and what that excuses
package model
