// Package capture brings packets that are addressed to a Service to the local
// Envoy, and refuses those that nothing serves.
//
// It owns one nftables table (inet gridmesh, and bridge gridmesh where pods
// hang on a bridge), one route table and one rule per family. All of it stays
// in force when the agent stops; only Cleanup removes it.
//
// The rules are constant; what changes is the content of a few sets, which
// the plan package decides:
//
//	prerouting  mangle -150  capture   frontend in serve4/6 -> tproxy, mark
//	prerouting         -90   divert    packets of Envoy's source-keeping sockets -> mark
//	output      mangle -150  local     frontend in serve4/6 -> mark (rerouted to lo);
//	                                   Envoy's own -> mark of the connection
//	forward, output      0   guard     still addressed to a Service -> reset or ICMP
//	postrouting        100   hairpin   a pod that meets itself -> masquerade
//
// and, only where bridge netfilter is kept (plan.Config.KeepBridgeNetfilter):
//
//	prerouting  nat   -100   redirect  from a bridge, frontend in serve4/6 -> redirect
//	input                0   own_ports not redirected, to a redirect port -> reset
//
// Marked packets find "local default dev lo" in the route table. Where Envoy
// does not listen, tproxy does not apply, the packet goes on and the guard
// refuses it: nothing unserved ever takes the default route.
package capture
