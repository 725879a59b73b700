// Package statedir keeps what a node has to know again after a restart, on a disk
// that may be full, or hang for as long as it likes: the loop of package node
// waits for none of it.
//
//	lock.go      the lock of the directory, and what its disk does not take
//	notebook.go  notes of an outage (package outage) and of the last contact
//	recorder.go  writes them, beside the loop
//	saver.go     writes the last good state, beside the loop
//	budget.go    the time that the waits of a start share
//
// Nothing in it logs: what is wrong is the caller's to say.
package statedir
