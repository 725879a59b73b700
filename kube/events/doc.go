// Package events writes Events (core/v1), for `kubectl describe`.
//
// There is one Writer. What differs between who writes is how much may be
// written: an agent writes about its own Node alone, at most 10 Events an hour
// (ForNode); a controller about all of its objects, limited for each of them
// (ForObjects). An Event is best effort: what it says is in a log, too.
package events
