// Package admin reads what only Envoy knows from its admin socket: how many
// connections each cluster has had, which endpoints it has ejected, and how near
// it is to its limits.
//
//	stats.go     what it counts by cluster: asked again and again, for it is as long as what was used
//	reader.go    all that it holds, endpoint by endpoint: asked where somebody wants to know which are ejected
//	overload.go  how near it is to its limits, of the statistics
//	use.go       what became of connections, by cluster or by endpoint
//	traffic.go   adds that up
//	ready.go     does it serve?
//
// A question is bounded in time and bytes. [Traffic] adds what
// was read up to counters that survive restarts of
// Envoy, bounded in number, and tells which clusters are in use. Nothing here
// changes anything in Envoy.
package admin
