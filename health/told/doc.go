// Package told is what the health daemon of a node tells the other programs there: whom
// the vote of their unit calls dead. It is a file, which the daemon keeps (health) and others
// read.
//
//	told.go   the file's words, and what is refused of them
//	ear.go    which words count, and until when
package told
