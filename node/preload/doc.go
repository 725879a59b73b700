// Package preload says which clusters Envoy is to hold before somebody needs them,
// besides those of the unit: those that it used. They survive a restart without a
// cloud, and their number is bounded.
//
//	demand.go  what Envoy asks for by name, from its streams to the loop of package node
//	held.go    what was near until now: it stays while it is used
//	used.go    which of that is kept: what is used again and again, not what a scan dials once
//
// It does no I/O; times are arguments.
package preload
