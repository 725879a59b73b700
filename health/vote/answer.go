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

// AnswerOf is what the annotation of a Node with the verdict says (names.NodeHealth): None for
// what is no verdict, and counts for none.
func AnswerOf(annotation string) Answer {
	switch annotation {
	case "true":
		return Yes
	case "false":
		return No
	}
	return None
}

// Result is an answer about a node.
type Result struct {
	Node   string
	Answer Answer
}
