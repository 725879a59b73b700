// Package walk uses bin/lab as people do: it starts one, types commands at it,
// and kills it.
package walk
