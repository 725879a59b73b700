// Package typed mirrors built-in kinds in their own types, in protobuf, and NodeTables: of each
// object what somebody needs of it is made on arrival, and nothing else is kept.
//
// Package objects is for kinds of any type, and writes; package feed is for what routing
// needs, and does not believe every list.
package typed
