// Package hold decides what the cloud's word about a unit's endpoints is worth
// just after the unit's uplink was away.
//
// A node that the cloud has not heard of for 40 to 50 s counts as unknown, and
// all of its pods as not ready, whatever they do; after five minutes they are
// deleted. When the uplink is back this verdict arrives first, and what the
// nodes themselves have to say comes seconds later: each kubelet has to connect
// again, to see what was written about its pods, and to contradict it. Who
// believed the verdict meanwhile would take out of service what has served all
// along.
//
// So endpoints on nodes of the own unit that were ready in the last snapshot
// before the heal and now are not, or are gone, are held as they were, until
//
//   - the endpoint is ready again by itself;
//   - its node has reported to the cloud after the heal, and its pods' statuses
//     had time to follow (Settle);
//   - the hold ends for everybody (Bound);
//   - it was held for long enough, over all holds since it was last ready (Longest);
//   - its Service names other pods: a selector is somebody's command;
//   - its address belongs to another pod meanwhile.
//
// A held endpoint that is really dead is left to Envoy's live failover.
//
//	hold.go   a Hold: what may be held, until when, and the snapshot to use
//	step.go   one judgement of one Service: what is held of it, and why not
//	fresh.go  Services that were made meanwhile
//	past.go   what one hold leaves to the next, and to the disk
//	unit.go   which nodes are in the unit, by each Service's own keys
//	mentions.go  what the slices of a Service say of an address on a node
//	index.go  whose the addresses are by now, in what changed
//
// The README has the states and the bounds. The package is pure: times are
// arguments, and who asks whether a node has reported is the caller.
package hold
