// Package source is where snapshots come from besides the API server, and
// where they go: a directory of manifests (Dir), the last good state on disk
// (ReadState, Keeper), and a Unix socket that the agent serves to other
// processes of the node (Serve, Socket). What is in force of a directory is kept over a restart, too (Remember).
//
// Dir and Socket embed a latest.Value: Run publishes into it until its context
// ends, and what was published last stays while the origin is away.
//
// The file and the socket share one encoding (codec.go): a header with a
// format version, then checksummed records in CBOR (RFC 8949). A reader takes
// what it can verify, and nothing of a state that is not whole.
package source
