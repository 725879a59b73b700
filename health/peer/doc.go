// Package peer is how the nodes of a unit tell each other what they see: a server and a
// client of SuperEdge's paths, PUT /result, POST /probe and GET /localinfo on port 51005.
//
//	config.go   what the operator chose
//	unit.go     who is in the unit, by name and address
//	peer.go     Peer: Report and Ask of others, Node, whom others ask
//	message.go  requests and replies, and their decoders
//	seal.go     keys, and what is signed
//	clock.go    time without clocks: of the receiver, in its own counting
//	replay.go   what was received already
//	rate.go     how much of one source
//	refusal.go  why something is refused
//	client.go   a request, and the reply that has to be its own
//	server.go   what is served, and to whom
//	result.go   PUT /result
//	probe.go    POST /probe
//	local.go    GET /localinfo
//	legacy.go   SuperEdge's own messages, of both generations
//	spoken.go   what a SuperEdge node said, where it cannot be asked
//	metrics.go  what is counted
//
// # Messages
//
// A request is JSON, and its header Gridmesh-Hmac2 an HMAC-SHA256 over method, path and the
// body as it is, so that nothing is decoded that was not signed. It names who sends it and
// to whom, by which UIDs, in which view of the unit, and has a nonce. The reply is signed over the nonce of
// its request and its status: no other one's passes for it. What others would have to be told
// a secret for is so kept from them; the messages themselves anyone on the way can read.
//
// Keys come from outside, one or two: the first signs, both are accepted, and a reply is
// signed with the key of its request. So a key is changed in three steps: the new one is made
// everybody's second, then the first, then the only one. Without a key nothing is sent, and
// all but GET /localinfo on loopback is refused.
//
// # Who is in the unit
//
// Only a node with an uplink is told who comes and goes, so nodes of a unit know different
// members, for days where some are cut off. Two understand each other where each is in the
// other's list by name and UID, and by the address that sends. What is asked of others is about a
// UID and an address, and who knows another one under that name leaves it out. Who reports that it
// has no uplink, and knows other nodes or other addresses of them, is given the list of who has one, in
// the signed reply (docs/adr/0019).
//
// # Time
//
// Clocks of nodes are an hour off, and jump. So a request says when it was sent in the counting
// of its receiver: milliseconds since that one began, with the random name of that beginning.
// A sender learns it from signed replies. Who does not know it, or knows the one before a restart, is
// refused with it, and sends once more at once. What was sent more than 30 s ago is refused, and what
// has a nonce that was received within these.
//
// # What a key is worth
//
// All nodes of a unit have the same key. Who has it can speak for others; a request is therefore
// only taken from an address of the node that it names, unless Config.NAT. That address is no
// proof: who sends by a node port has the address of that port's node. So nothing is refused to a
// node for what comes from its address and is not signed.
//
// # SuperEdge's own messages
//
// With Config.Legacy what SuperEdge's edge-health sends is taken, too, and what is sent is
// readable for it. It is as weak as there: who records a message can send it for ever, in the name
// of a node that died. Of a node that ever signed as ours, nothing else is taken.
package peer
