// Package xds serves a catalog to Envoy: a delta ADS server of our own on
// go-control-plane's types.
//
// What an Envoy is sent depends on the current catalog and on what its stream
// knows already, never on a queue of events: a stream keeps, per type, what
// was asked for, what was sent (by version) and which names to look at again.
// A change costs the number of changed names; an ACK costs one map delete.
//
// Rules that the real Envoy taught (each has a test with the binary):
//
//   - every name that is asked for is answered at once, an unknown cluster by an
//     empty one, for Envoy waits for a removed name at every later connection;
//   - a cluster asked for by name is never removed, only emptied;
//   - a changed cluster is followed by its endpoints, even unchanged ones, or
//     it warms until its fetch times out and everything on demand with it;
//   - a NACK rejects a whole response, so what was in it goes out again one by
//     one, and what is then rejected stays back until it changes.
package xds
