// Package report is what is shown of node health, to people and to programs: of each unit who
// votes, who leads and whether it has an uplink, of each node what its unit says, what the
// cloud believes, what is to become of its pods, and what happens next if nobody says
// anything new.
//
// It is pure: Nodes, Leases, the list of shielded nodes and what daemons said of themselves go
// in, and the time. What is to become of a node is decided by package shield, as
// gridmesh-controller does it. That one goes by when it saw something change; here there are
// only stamps, which were written by clocks of nodes: where one is ahead, it is said.
//
//	state.go   what is known, and the newest stamp in it
//	read.go    that of objects, as kubectl prints them
//	key.go     which label of Nodes has the units
//	report.go  what is shown, made of what is known
//	node.go    of one node: its unit's word, the cloud's, and what follows
//	next.go    what is to happen, and when
//	unit.go    of a unit
//	fault.go   what contradicts itself, with the cure
//	text.go    tables for people
//	detail.go  one node, for people
//	words.go   times and counts in words
//	status.go  what a daemon says, over its status socket or recorded
//	matrix.go  who sees whom, by what daemons said
//	draw.go    that, and a daemon's status, for people
package report
