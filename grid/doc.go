// Package grid carries out what grid/plan decides: it applies, adopts, marks,
// releases and removes the children of grids, and writes their status, their
// revisions and Events.
//
// It is level-triggered: an index of the world follows a mirror of it, every
// grid that a change concerns is queued and planned anew, and what differs is
// carried out. A world in which nothing changed costs no write.
//
// Run follows the mirror; workers take grids from a work queue, one worker a
// grid, plan under the lock of the index, write without it, and bring the index
// up to what they wrote, for the mirror lags. What is due later (a grace, the
// pause after a wave, a retry) is queued for then.
//
//	api.go         what the controller needs of a cluster
//	kinds.go       what it watches
//	config.go      what the operator chose
//	controller.go  the queue, the index, and what is remembered of a grid
//	shares.go      what of its time one namespace has
//	lag.go         what was written, until the mirror shows it
//	orphans.go     what the garbage collector passed over
//	damp.go        children that others change again and again
//	job.go         one plan, carried out
//	write.go       one child, written
//	events.go      what is recorded of it
//	keys.go        Events about Services whose topology keys are a mistake
//	metrics.go     and counted
//	doubts.go      why a replica may be unable to do its work
package grid
