// Package daemons runs a unit of real health.Daemon in one process, each with its loop, its
// Lease and its verdicts, in a bubble of testing/synctest: what they send each other is counted on
// an exchange in memory, and what they write by an API server in memory that has Leases and
// the annotations of Nodes. Of a node's agent there is not: probes, signatures and HTTP.
//
//	site_test.go      the nodes and their network
//	api_test.go       the API server
//	daemons_test.go   what it costs
package daemons
