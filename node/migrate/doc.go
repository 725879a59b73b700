// Package migrate takes a node from kube-proxy to gridmesh and back, step by step: what is
// on the node, what gridmesh makes of it, what is to be done next, and who does it.
//
//	seen.go    what is on the node, and reading it
//	config.go  kube-proxy's flags and file, as far as they matter to another proxy
//	plan.go    what was seen -> what is to be done: no I/O
//	differ.go  what kube-proxy was told -> what gridmesh does with it: no I/O
//	text.go    a plan for people
//	run.go     waits for the steps that come by themselves
package migrate
