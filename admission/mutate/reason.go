package mutate

// Reason is why a write is changed or left as it is: one of a few, fit for a metric's label.
type Reason string

// Shielded is the reason of every change, and of nothing else.
const Shielded Reason = "shielded"

// The reasons to leave a write as it is.
const (
	OtherChange Reason = "other change" // it does not call anything lost
	Unshielded  Reason = "not shielded" // its node has no entry in the shield
	Expired     Reason = "expired"      // the entry was over when it was written
	Undated     Reason = "undated"      // nobody can tell when it was written
	OwnWord     Reason = "own word"     // the node's own kubelet says the same
	Terminating Reason = "terminating"
	Ambiguous   Reason = "ambiguous" // one pod has two endpoints
)
