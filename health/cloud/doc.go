// Package cloud is what gridmesh-controller does for node health: it keeps the shield, the
// list of nodes whose pods and endpoints stay though the cloud calls the nodes lost, and
// repairs what was done to pods before a node was on it. It keeps the table of units and the
// policies that hold votes to it.
//
// Package health/shield decides; the admission policies and the webhook read the list. Those
// take back single writes of Kubernetes' controller manager as it makes them. What they
// missed, because they were not there yet or a vote came later, is put right here, and again
// until it is so: pods that it marked on a node that is kept are ready again, pods of a node
// that is voted dead are marked and the node is tainted, though its own queue is busy with
// nodes that are kept.
//
// Votes are taken as they were written, and not only the last of each look: nobody hides another one's
// by writing over it.
//
// The list is written first, and nothing waits for a write of a node or a pod: the shield ends
// where the list is not renewed. What was not heard of for a while, by a controller that begins
// or by one that the API server did not answer, gives up nobody.
//
//	world.go     what is known of nodes and units, and since when
//	keeper.go    the loop: what is to become of each node, and the list
//	errands.go   what is done for nodes beside the loop, a few at a time
//	units.go     the table of which node is in which unit, to which votes are held
//	policies.go  the admission policies, which are installed and kept
//	run.go       a real cluster, and how it is written
//	watch.go     what is watched of it
//	pods.go      pods that the controller manager marked, or did not
//	bound.go     which pods go when a unit without uplink is held for those that are bound to it
//	taints.go    nodes that are voted dead, and those that are and are not any more
//	tell.go      Events and metrics
//	cleanup.go   what takes all of it away
package cloud
