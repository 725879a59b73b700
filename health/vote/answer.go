package vote

// Answer is what one node says of another.
type Answer uint8

// Answers. Nothing was said where there is none.
const (
	None    Answer = iota
	Yes            // it is well
	No             // it is not
	Abstain        // whoever says so does not trust itself
)

func (a Answer) String() string {
	return [...]string{"none", "yes", "no", "abstain"}[min(a, Abstain)]
}

// Result is an answer about a node.
type Result struct {
	Node   string
	Answer Answer
}
