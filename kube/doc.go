// Package kube is the only code that talks to an API server.
//
// Feed watches what routing needs, trims it on arrival, and publishes whole
// snapshots. It believes the API server, but not blindly: a list that is not
// whole, or that would drop half of what is known, is held back.
package kube
