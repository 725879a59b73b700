// Package healthport answers load balancers at the healthCheckNodePort of Services with
// externalTrafficPolicy Local: whether this node has endpoints of its own for clients
// from outside, and how many, in kube-proxy's words.
//
//	places.go    a view -> who is answered where, as views go by
//	bounds.go    how many ports and connections there are, by the agent's descriptors
//	servers.go   the listeners, and the answers
package healthport
