package vote

// Proof is the count that a verdict rests on. It is exact where the whole unit was asked, and
// else of who observes the node, which decides no death.
type Proof struct {
	Yes, No, Of int
	Exact       bool
}

// Decide is the rule of a unit of n nodes: more than half of them, the node in question
// counted among them, or None. Of two nodes the other one's answer decides, which is none
// where it does not reach the cloud (doubt.go).
func Decide(n, yes, no int) Answer {
	switch {
	case n < 2:
		return None // nobody sees it
	case n == 2 && no == 1 && yes == 0:
		return No
	case 2*yes > n:
		return Yes
	case 2*no > n:
		return No
	}
	return None
}

// vouched reports whether those who observe a node see it: more of them do than do not. Who
// abstains, and who was not heard, counts for neither.
func (p Proof) vouched() bool { return p.Yes > p.No }

func (p *Proof) add(a Answer) {
	switch a {
	case Yes:
		p.Yes++
	case No:
		p.No++
	case None, Abstain:
	}
}
