// Package lists does not believe every list of an API server: one that is not whole, or that
// would drop half of what is known, is held back, and what was known stays. Feed and the
// mirrors judge alike.
//
//	judge.go   which lists of one watch are believed
//	memory.go  what lists took away lately
//	again.go   has a reflector list anew, for a list that is held back is looked at again
//	silence.go ends a watch that stays open and says nothing
package lists
