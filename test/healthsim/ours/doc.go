// Package ours runs the machine of health/vote as health.Daemon does: what it wants is carried
// out in the simulated network, and it is told what came of it. Nothing of the vote is here.
//
//	ours.go    a node's agent: its events and what it has sent
//	cloud.go   the cloud: verdicts, who is NotReady
//	lease.go   the unit's Lease, and who holds it
//	weight.go  what messages weigh, as health/peer writes them
package ours
