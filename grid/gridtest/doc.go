// Package gridtest is an API server of grids in memory, for tests without a
// cluster: the twin of what kube has, server-side apply with the API server's
// own field manager included. Conformance is the suite that both pass.
//
// It knows no schema: every list is atomic, nothing is defaulted, and only what
// a test asks for is refused.
package gridtest
