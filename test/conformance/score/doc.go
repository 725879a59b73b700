// Package score reads what Kubernetes' own specs came to under each proxy,
// shows it side by side, and holds it against what is expected.
//
//	junit.go   a process' JUnit file -> outcomes
//	expect.go  the checked-in list of specs, with what each comes to
//	leftout.go the list of those that are not run, and which are in no list
//	table.go   both proxies side by side, and what became worse
package score
