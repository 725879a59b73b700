// Package dnsplugin is the CoreDNS plugin "grid": the names of grids, seen from
// the node that it runs on. README.md is its manual; package answer decides.
package dnsplugin
