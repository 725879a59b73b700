// Package script makes, prints, reads and shrinks what a soak does to a
// cluster: a list of timed steps, which follows from a seed alone.
//
// A step is data, one line of text. It names what it is done to by the world's
// names (units, nodes) and never by what only a run knows, and what it breaks
// it mends itself after the time it names: any part of a list is a list that
// can be played. That is what makes a failing one replayable and shrinkable.
package script
