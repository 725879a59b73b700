// Package feed makes snapshots from watches of an API server.
//
// It believes the API server, but not blindly: a list that is not whole, or
// that would drop half of what is known, is held back (kube/internal/lists).
//
// The way of an object: a reflector of client-go lists and watches
// (watches.go); a resource (services.go, foreign.go, slices.go, nodes.go, cidrs.go)
// converts it on arrival to topology's types, which is all that is kept; the
// watch's store (store.go) puts it into the builder; and Feed publishes what
// has changed within 20 ms as one snapshot. Who has said nothing for how long: heard.go.
package feed
