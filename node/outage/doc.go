// Package outage decides what is an outage of the uplink, and what a process
// leaves of one for the next.
//
//	uplink.go  for how long the cloud has been silent; when that is an outage
//	clocks.go  for how long the node slept, and whether before a moment or after it
//	heard.go   how long ago the last sign of life is
//	record.go  what is recorded of it, and its encoding
//
// It is pure: times are arguments, package statedir has the disk, and the loop
// of package node acts. What is held after an outage is package hold.
package outage
