// Command gridmesh-agent runs on every node. It watches Services, slices and
// nodes, decides what this node may reach, tells the local Envoy by xDS and
// the kernel by nftables.
//
// A stop of any kind leaves the rules in force, and Envoy goes on with what it
// holds: an update is no outage. Only "gridmesh-agent cleanup" removes them.
package main
