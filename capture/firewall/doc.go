// Package firewall says whether rules of others refuse packets that the capture delivers
// on this node: those that are addressed to a Service are not to an address of the host,
// and most firewalls end with a rule, or have a policy, that refuses what they do not know.
//
//	walk.go        a packet goes through the chains of a table
//	rule.go        what a rule asks for, and decides
//	fields.go      what of a packet a rule may ask for, and what is known of that
//	sets.go        whether it is in a set
//	extensions.go  what those of iptables ask for, and decide
//
// What may let such a packet in does, as far as anybody can tell here: what is told of
// is sure. So does what asks a program, what nobody here knows, and what looks for a mark
// that was set before. Rules of iptables are understood as nftables has them; those of its legacy
// variant are not seen.
package firewall
