// Package xds serves a catalog to Envoy: a delta ADS server of our own on
// go-control-plane's types (docs/adr/0007).
//
// What an Envoy is sent depends on the current catalog and on what its stream
// holds already, never on a queue of events: a subscription keeps, per type,
// what was asked for, what was sent (by version) and which names are dirty. A
// change costs the number of changed names; an ACK costs nothing.
//
// A [Server] has streams, a stream has a subscription per type. The
// subscription is a state machine without I/O; the stream owns it, in one
// goroutine, and does the I/O; the server holds the catalog. [Bootstrap]
// renders the bootstrap of an Envoy that connects here.
//
// The contract with Envoy 1.40, as measured:
//
//   - every name that is asked for is answered at once, a cluster that is not
//     found by an empty one, for Envoy waits for a removed name at every later
//     connection;
//   - a cluster asked for by name is never removed, only emptied;
//   - a changed cluster is followed by its endpoints, even unchanged ones, or
//     it warms until its fetch times out and everything on demand with it;
//   - a NACK rejects a whole response, so what was in it goes out again one by
//     one, and what is then rejected stays back until it changes or 10 s passed;
//   - Envoy never gives back what it asked for by name, so that is bounded.
package xds
