// Package sim is a unit of nodes in which time is an event: what is sent arrives some
// milliseconds later, or never, and each run of one seed is the same. What the nodes run is
// a Protocol; the faults, the costs and the judgement are the same for all.
//
//	world.go    time, chance, and what runs on a node
//	live.go     the same for a Protocol that has goroutines and a clock
//	node.go     the state of nodes and links: the truth
//	net.go      dials, exchanges over TCP, packets, streams, and what they weigh
//	fault.go    faults by name, as loss=30%
//	plan.go     when each fault comes and goes
//	judge.go    verdicts held against the truth
//	report.go   what came of a run
//
// # What is modelled
//
// A packet takes 1 to 10 ms. What TCP loses it sends again as Linux does: a SYN after 1 s and
// 3 s, data after 200 ms and twice that each time. An attempt of a check is one SYN and its
// answer within a second, and there are three. A node that is frozen answers nothing; one whose
// agent is stopped takes connections, as its kernel does, and answers when it goes on; who
// dials its kubelet, which is not stopped, has an answer. Who is behind NAT dials others and is
// answered, and is dialled by nobody. Uplinks carry nothing of the unit.
//
// # What is wrong
//
// A node is fine while it runs and no more than half of the unit cannot reach it. A verdict that
// a node is dead is wrong if that one was fine for the last ten seconds. Where more than half
// cannot reach it no protocol knows more: that is counted as cut off. A node that runs is not
// less alive for its agent: an agent that is stopped, or begins anew, is no death.
package sim
