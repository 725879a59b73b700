// Package check looks whether other nodes are well, as SuperEdge's edge-health does: probes
// of several kinds, each with a weight, and a line that their sum has to reach.
//
//	config.go   which probes there are, and the numbers of a round
//	plugin.go   a probe's flag, as pingplugin and kubeletplugin
//	check.go    a round: all targets at once, retries, what was found of each
//	conclude.go what may be concluded of an error, and what may not
//	probe.go    what a probe is, and the list of them
//	ping.go     a port takes connections
//	kubelet.go  the kubelet says that it is well, over HTTP
//	kubeletauth.go  and over HTTPS, where it has to be told who asks
//	trust.go    with which credentials that is, and whom they are shown
//	metrics.go  what is counted
//
// # What is concluded
//
// Three things: a node is well, it is not, or nothing, and then it is not in the answer of a
// round. Nothing is concluded of what this node did not find out: the round was cancelled, it
// lacks descriptors or a route, the node has no address, or there was no time for it.
//
// A refused connection is a failure, as it is SuperEdge's, though somebody has to live who
// refuses it: it may be a firewall, or who took the address over, and a kubelet that is gone
// refuses just so. What is asked is whether the node does its work.
//
// A kubelet that asks back who we are (401, 403), and one that cannot find out whether we may
// ask, is well: it answers. It has the API server tell it that, and would be called dead by
// all of a unit that lost its uplink. Where it does not answer at all who shows a token it is
// asked once more without one.
package check
