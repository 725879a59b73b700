// Package swim is SWIM (Das, Gupta, Motivala: "SWIM: Scalable Weakly-consistent Infection-style
// Process Group Membership Protocol", DSN 2002) with suspicion and its round-robin of targets, as
// small as it can be:
//
//	swim.go     a node's period: ping, indirect pings, suspicion
//	gossip.go   what is said besides: who is suspected, dead, or alive after all
//
// A period is a second, an answer is waited for half of it, three others are asked to ping for
// it, and who is suspected is dead after 3 log2(n+1) periods, those of the paper's experiments
// but for the length of a period. Who hears that it is suspected or dead says that it is alive
// with a higher incarnation; in the paper a confirmed death is final.
// Where a node pings one whom it holds for dead, or suspects, it is told so in the answer.
package swim
