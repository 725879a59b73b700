// Package kube is the connection to one API server, and with its parts the only
// code that uses client-go:
//
//	kube/feed     watches -> snapshots
//	kube/objects  objects of some kinds: mirror, list, apply, patch, delete
//	kube/events   Events
//	kube/lead     leader election, and CustomResourceDefinitions
//
// The parts import this package and never each other. The README beside it is
// for all of them.
package kube
