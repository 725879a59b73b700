// Command healthsim simulates the vote of a unit, and what others do in its place, under faults:
// how many messages a node sends, how long a death takes to be declared, and how often a node that
// lives is declared dead. Each run of one seed is the same:
//
//	go run . --nodes 100 --seed 7 --fault crash,loss=30% --for 2h
//
//	main.go        flags
//	protocols.go   what a unit can run
//	figures.go     the runs of docs/health-figures.md
//	page           its tables
//
// sim is the simulator; ours drives the real machine of health/vote; edgehealth, swim and
// gossip are others, gossip the real hashicorp/memberlist, which is in no run of this program but
// in tests; daemons runs a thousand real health.Daemon.
//
// It is a module of its own, for memberlist is no library that the product may need.
package main
