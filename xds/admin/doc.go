// Package admin reads what only Envoy knows from its admin socket: which
// endpoints it has ejected, and how many connections each has had.
//
// [Reader.Clusters] asks once, bounded in time and bytes. [Traffic] adds what
// was read up to counters that survive replaced endpoints and restarts of
// Envoy, bounded in number, and tells which clusters are in use. Nothing here
// changes anything in Envoy.
package admin
