// Package vote decides which nodes of a unit are well, by what the nodes of the unit see of
// each other: a node that lost its uplink alone is well, and one that died is not, and from
// the cloud both look the same.
//
// It is a step function: an event and the time go in, what is to be done comes out. It does
// no I/O; package health carries out what it wants, and tells it what came of it.
//
//	machine.go   the state of one node, and which part an event concerns
//	event.go     what happens, and what is to be done
//	config.go    numbers and times, with the reasons for their defaults
//	view.go      who is in the unit, and who observes whom
//	answer.go    yes, no, and who had better say neither
//	round.go     the steady state: each node checks some others, and reports to few
//	doubt.go     when a node is to believe itself sick rather than the others
//	heard.go     what a node heard of others, and who is suspected by that
//	quorum.go    whether that is more than half of the unit
//	lead.go      who leads, and whose word of that is believed
//	ask.go       the exact vote of the whole unit, about those who are suspected alone
//	rule.go      the rule: more than half of the unit, or nothing changes
//	budget.go    how many may be declared dead at a time
//	known.go     what a node knows, for people to look at
//
// # The rule
//
// A verdict changes when more than half of all nodes of the unit say so in one vote, the
// node in question counted among them, as SuperEdge's edge-health has it. Half of a unit that
// is cut in two therefore decides nothing, on either side, and neither does one node alone.
// Of two nodes the other one decides, while it reaches the cloud: there is no majority of
// two when one is dead.
//
// # What it costs
//
// A node checks ten others each round, and sends what it saw to three, however many there
// are: the observers form rings (Rapid, USENIX ATC 2018), so each node has as many as it
// observes itself. Ten see a death; they do not decide it, for ten of a unit that is cut in
// two may all be on one side. So who is suspected is asked about in the whole unit, by one
// node, the leader. Nothing is suspected as a rule, and nobody asks.
//
// # Who leads
//
// Who holds the unit's Lease, and who may hold it hears more than half of the unit, and has
// for two rounds, and reaches the cloud. While nobody is heard to hold it the first by rank
// who hears that many leads, with the cloud or without: it writes nothing, and its verdicts
// are for the nodes of the unit. Each says in its reports whether it does, and whether it
// holds the Lease, for it may be heard and hear nobody. Who asks and is answered by half or
// fewer leads no more for some rounds: it may be that it is heard by nobody. Two may lead for
// some seconds, and both decide by the rule alone.
//
// Who leads next is told in those two rounds who is dead, goes on with that, and asks the
// unit about each. All count who is declared dead, and by whomever: the next leader has what
// is left of the budget, and one that begins anew has none where that many are dead.
//
// # What stands in the cloud
//
// Nothing is written about a node before this one was told what stands there, be it nothing.
// That its observers see a node is enough to say that it is well where nothing stands yet;
// over a verdict goes only a vote of the unit, and not an old one.
//
// # What one node's word is worth
//
// One answer of each node it was asked about, or is to check. That it leads is believed where
// another node names it, it ranks first of those that take reports, or there is nobody to name
// it; then who is dead is taken from it, but never this node itself, and never more than half
// of the unit; for not quite two minutes, and longer where the next leader adopts it and the
// unit cannot decide. Whom more than its own word calls the leader, that one no other's claim
// displaces while it is heard of. Who lies that it holds the Lease while nobody does is
// believed, as are who ranks first and several that lie together: a node without an uplink
// cannot ask who does.
package vote
