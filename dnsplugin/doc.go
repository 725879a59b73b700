// Package dnsplugin is the CoreDNS plugin "grid": the names of grids, seen from
// the node that it runs on. README.md is its manual.
//
// Package topology decides who answers, package answer makes DNS answers of it.
// setup.go reads the Corefile, data.go follows the source of snapshots, grid.go
// serves, records.go makes records, next.go asks the next plugin.
package dnsplugin
