// Package capture brings packets that are addressed to a Service to the local
// Envoy, and refuses those that nothing serves.
//
// It owns three nftables tables (inet gridmesh; bridge gridmesh where pods hang on a
// bridge; inet gridmesh_kernel where the kernel serves Services, kernel.go), one
// route table, and in each family a rule, or several where sources are validated
// (package routing). All of it stays in force when the agent stops: Cleanup removes
// it, and Remove after a start that failed before anything was served.
//
// The rules are constant for a configuration, and data in the rules package;
// what changes is the content of a few sets, which the plan package decides:
//
//	prerouting  mangle -150  capture     frontend in serve4/6 -> tproxy, mark
//	prerouting  nat    -102  redirected  from a bridge, frontend in serve4/6 -> redirect (*)
//	prerouting          -90  divert      packets of Envoy's source-keeping sockets -> mark
//	input                 0  own_ports   not redirected, to a redirect port -> reset (*)
//	output      mangle -150  local       frontend in serve4/6 -> mark (rerouted to lo);
//	                                     Envoy's own -> mark of the connection;
//	                                     answers to its kept sources -> mark
//	forward, output       0  guard_*     still addressed to a Service -> reset or ICMP
//	postrouting nat     100  hairpin     a pod that meets itself -> masquerade
//	postrouting         250  guard_last  still addressed to a Service, not to lo -> drop
//
// (*) only where bridge netfilter is kept (plan.Config.KeepBridgeNetfilter).
//
// Marked packets find "local default dev lo" in the route table. Where Envoy
// does not listen, tproxy does not apply, the packet goes on and the guard
// refuses it: nothing unserved ever takes the default route.
//
// The life of a Capture: Lock, New, Install (rules, routes, guard), then for
// each view Retract, tell Envoy, Extend; RefreshBridges and Repair every few
// seconds and when Watch says so. Cleanup needs no Capture.
//
// Two netlink libraries are in use, for neither does the other's work:
// google/nftables speaks through mdlayher/netlink, which also carries
// sock_diag here; vishvananda/netlink knows links, addresses, routes, rules
// and conntrack. Lists that are acted on are read through capture/dump, which
// reads a list again that changed while it was told: of one that stays torn,
// what is missing is added, and nothing is removed. For the names of tables, the
// rules of one chain, sockets and redirected connections the libraries' word is taken.
package capture
