// Package plan turns a view into what the kernel must know: which frontends
// are handed to Envoy, which ranges are guarded, whose source address is kept.
//
// It is pure. The capture package writes a plan into nftables; Trace walks a
// packet through it, for the lens and for tests.
package plan
