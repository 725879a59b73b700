// Package plan turns a view into what the kernel must know: which frontends
// are handed to Envoy, which ranges are guarded, whose source address is kept.
//
// It is pure. The rules package says what the kernel does with a plan, the
// capture package writes it into nftables.
package plan
