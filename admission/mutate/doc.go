// Package mutate decides what of a write of Kubernetes' controller manager is taken back,
// because the node it is about is shielded: the nodes around it say that it is well, though
// the cloud hears nothing of it.
//
// It is pure, and every decision is of three things: the stored object, the one to be
// written, and the shield. No clock is asked, for the write says itself when it was made.
// Package policy has the same decisions as Kubernetes' own admission policies, and a test
// on a real API server holds the two against each other.
//
//	writers.go    whose writes are looked at
//	shield.go     who is shielded, and until when
//	reason.go     why a write is left as it is
//	patch.go      RFC 6902, and when nothing of a write is left
//	node.go       the taint that evicts pods
//	pod.go        the condition that takes pods out of their Services
//	slice.go      EndpointSlices
//	endpoints.go  Endpoints
//
// # When a write is made
//
// A write is taken back while the node's entry in the shield is later than it. The taint has
// timeAdded and the condition lastTransitionTime, which the controller manager sets when it
// writes. Endpoints say no such thing of themselves, but the API server notes in managedFields
// when it takes what: the newest of these is the time of the write (and a taint's without
// timeAdded). A write without any is left as it is. So a shield that nobody renews
// protects nobody for ever, wherever the decision is made.
//
// # What a node says itself
//
// Nothing is made better than the node's own kubelet said it is. The controller manager marks
// pods of a lost node by their condition Ready alone, and leaves ContainersReady as it was,
// which a kubelet never does: that tells one from the other (MarkPodsNotReady in
// pkg/controller/util/node). A Node that had not-ready:NoExecute already, by the word of its
// kubelet, keeps the taint that takes its place. What terminates is never touched.
//
// # Nodes and pods first, endpoints where these are not enough
//
// Where the condition of a pod stays, the endpoint controllers see nothing change: no
// EndpointSlice is written, and no watcher wakes. EndpointSlice and Endpoints are a second line, for clusters
// in which writes of pods/status cannot be looked at. An endpoint does not say who called it
// not ready, so a pod that fails just before its node is lost, or as it comes back, would be
// kept in its Services by them, until the controller writes the endpoints again for another
// reason. They ask for what they can: the same pod by UID, on the same node, at the same
// addresses. Beside the first line they only do harm: do not run them with it.
//
// # What is not a write any more
//
// The API server stores nothing where an object is as it was, and wakes nobody. Where all that
// a write changes is taken back, its bookkeeping is, too: managedFields, and of endpoints the
// time of the last change.
package mutate
