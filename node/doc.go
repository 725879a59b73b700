// Package node is the agent of a node: it gathers snapshots, decides what this
// node may reach, and acts on the kernel and on the local Envoy.
//
//	Source ──► snapshot ──► topology.Viewer ──► view ──┬─► Capture.Retract   what is no longer served
//	state file ──┘                                     ├─► XDS.Update        what Envoy may ask for
//	                                                   └─► Capture.Extend    what is served from now on
//
// The order of the last three is the law of the loop: what is refused must be
// refused before Envoy forgets it, and Envoy must know what it is to be handed, for
// which it is waited for a moment (XDS.Await).
//
// The order of a start is: inspect the node, lock the state directory and the network,
// listen, put the guard in force, and only then ask anything of the network
// (start.go). From the guard on nothing that is addressed to a Service leaves the
// node unserved.
//
// What the cloud says of this unit just after an outage is not believed at once:
// package hold.
//
// A stop of any kind leaves the rules in force. Nothing in this package
// removes them: package cleanup does, where no agent runs.
//
// New validates and allocates. Run does all I/O and returns when every
// goroutine has ended, but for those that wait for a disk that hangs: what such a
// one gives or takes later is nobody's. What changes while it runs is owned by one goroutine,
// the loop's, and lives in the type loop. What goes between it and others locks
// itself, and is a field of Agent: from the loop the snapshot, the report
// (status.go) and what is in force (package envoy); to it the names that Envoy asked
// for (package preload), what Envoy answers (envoy.go) and whether it does
// (absence.go, asked.go), the NetworkPolicies (policies.go) and their engines (engines.go), the own
// Node's pod CIDRs, and whom the unit's vote calls dead (dead.go); both ways which nodes have reported (reports.go). Whether the own Node
// is about to go goes from who follows it to the health. The findings are of all who look.
//
// Parts are interfaces (parts.go); package nodetest holds twins of them in
// memory. Both kinds keep the same contract, which contract_*_test.go holds.
package node
