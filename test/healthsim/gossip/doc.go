// Package gossip runs the real github.com/hashicorp/memberlist, with its defaults for a LAN, as a
// protocol of the simulator: a transport carries its packets and streams through the simulated
// network. It has goroutines and timers, so it runs in a bubble of testing/synctest, where hours
// pass in seconds; and its chance is its own, so that no two runs are the same.
//
//	gossip.go     members, and what they say of each other
//	transport.go  their packets and streams
//
// An agent that stands still is, here, one that neither sends nor receives: its timers go on.
// This is how memberlist's own Lifeguard was measured (arXiv 1707.00788).
package gossip
