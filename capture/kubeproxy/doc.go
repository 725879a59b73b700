// Package kubeproxy finds what kube-proxy has in a network, live or left over, and
// removes what is left. It writes nothing but that: the rules of others in tables that
// kube-proxy shares with them stay.
//
//	rules.go    what is there, and in force
//	own.go      which chains of iptables are kube-proxy's, and what leads to them
//	remove.go   takes them away
//	alive.go    does it run
//	written.go  has the one that runs written its rules since it started
//	legacy.go   what the old iptables holds, which nftables does not show
package kubeproxy
