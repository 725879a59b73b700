// Package rules describes as data what gridmesh puts into nftables: which
// chains there are, on which hooks, and rule by rule what they match and do.
//
// The same data is written into the kernel by the capture package, printed in
// the syntax of nft(8) by Table.String, and walked by Walk and Trace: what
// `gridmesh trace` shows is what the kernel has. It is pure.
package rules
