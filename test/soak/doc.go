// Package soak plays lists of steps (package script) against a real cluster of
// three units while pods and hosts dial, and judges what happens by a model of
// what must hold (package model):
//
//	cluster.go   the cluster, and what it runs all the while
//	play.go      steps in their time, each mended after its own
//	deeds.go, services.go, grids.go, faults.go, clocks.go  what each verb does
//	follow.go    what the API server has, and what each agent was told
//	unserved.go  who says that the steady app's pods are not ready
//	holds.go     when an agent holds what was before an outage
//	clients.go   who dials
//	borders.go   what crosses the units' borders
//	probes.go    what would, where nothing stops it
//	judge.go     answers, failures and borders, held against the model
//	affinity.go  who answers a client that was answered before
//	paths.go     which of two paths serves what
//	waited.go    what a wait was for, where it was long
//	settled.go   what others make of the objects that steps write
//	remind.go    what they forgot
//	rest.go      when nothing moves any more
//	reading.go, fresh.go  the state of a node, and a fresh start's beside it
//	leaks.go     goroutines, files, sockets, watches
//	logs.go      what no program may write
//	plants.go, plants_cluster.go  every judge is shown to be able to fail
//	tally.go     what a run comes to
//
// TestSoak plays a minute; make soak plays twenty, and shrinks what fails.
package soak
