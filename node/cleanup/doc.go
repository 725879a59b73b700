// Package cleanup takes away what the agent has left in force on a node, and where
// that is wanted what it keeps on disk: gridmesh-agent cleanup.
//
//	cleanup.go  the order of it, and patience with a disk that hangs
//	files.go    which files may be gridmesh's, by their names
//	own.go      which of them are, by what they hold: it runs as root, and what else is there is somebody's
//	result.go   what is said of it
//
// It needs no agent, and runs beside none: the lock of the network keeps the two apart, for
// rules first and then for files, and that of the directory of the state, where there is
// one, all along. Its errors name the flags of the agent.
package cleanup
