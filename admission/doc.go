// Package admission keeps what is well on a node that only lost its uplink: a webhook
// that gives a few writes of Kubernetes' controllers back as they were, for nodes in the
// shield (the NodeTable gridmesh-shield, which gridmesh-controller keeps).
//
//	paths.go      the list of what is asked, and who decides it
//	handler.go    a call: bounded in size, time and number, and allowed whatever happens
//	rooms.go      how many calls there are at once, and of whom
//	review.go     AdmissionReviews, v1 and v1beta1
//	shield.go     which nodes are shielded, as last heard
//	serving.go    the certificate that is shown, which follows the Secret
//	issuer.go     who makes it, and has the API servers believe it: one replica
//	serve.go      how the listener is served
//	metrics.go    what is counted
//
// What becomes of a write is decided in admission/mutate, which is pure; when there is
// to be another certificate, in admission/certs.
//
// A call is never refused: what cannot be read, takes too long or goes wrong inside is
// answered with "allowed" and no change, counted, and said now and then.
package admission
