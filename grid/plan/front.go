package plan

// front is where a rollout is: indexes of the steps that the change has not
// reached, in order, and units that it has reached and that are not ready, within
// their deadline (by name) and beyond it.
type front struct {
	waiting, failed []int
	busy            []string
	anew            []string // busy ones that failed before
	lost            []string // failed, and have no node any more
	dark            int64    // not well, and out of sight, of which it is not known that they failed
	hidden          int64    // of those and of such without a node, as many as failed without a name in the status
	away            bool     // others wait that cannot have their turn now
}

// over reports whether more failed than may.
func (f *front) over(r *waves) bool {
	return int64(len(f.failed)+len(f.lost))+f.hidden > int64(r.maxFailed)
}
