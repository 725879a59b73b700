// Package health is the daemon that votes on the health of the nodes of a unit: it carries
// out what package health/vote wants, and tells it what came of it.
//
//	daemon.go   the loop, which owns the vote
//	carry.go    checks, reports and questions
//	answer.go   what other nodes ask of this one
//	members.go  who is in the unit, by the API server or by what was known last
//	lists.go    who is in the unit by the word of another node, for one without an uplink
//	where.go    at which address a node is checked
//	keep.go     the file with what was known last
//	group.go    how nodes are grouped into units
//	config.go   SuperEdge's ConfigMaps are followed: who votes with whom, and the key
//	config_file.go  what was in force of them last, on disk
//	dialect.go  what they say, and what is wrong with it
//	uplink.go   whether this node reaches the cloud
//	lease.go    who may hold the unit's Lease, and its name
//	hold.go     how it is held: written each 10 s
//	write.go    verdicts, as annotations of Nodes, some at a time, and again where that failed
//	status.go   what this node knows of its unit, for who asks it
//	tell.go     whom the unit calls dead, for the other programs of the node
//	metrics.go  what is counted
//
// Others in the room: health/check looks at nodes, health/peer is the exchange between them,
// health/evidence what a verdict rests on, as text, and health/told what others on the node
// are told; health/shield and health/cloud are the cloud's side; health/report is what is
// shown of all of it.
package health
