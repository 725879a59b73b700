package render

import "container/heap"

// pile is candidates of which the first (sign 1) or the last (-1) is on top.
type pile struct {
	sign int
	list []*candidate
}

func (p *pile) top() *candidate { return p.list[0] }

// moveTo takes a candidate out of its pile and puts it into another; nil for
// none.
func (c *candidate) moveTo(to *pile) {
	if c.in != nil {
		heap.Remove(c.in, c.at)
	}
	if c.in = to; to != nil {
		heap.Push(to, c)
	}
}

// Len is of heap.Interface, as all below.
func (p *pile) Len() int { return len(p.list) }

// Less puts what belongs on top before others.
func (p *pile) Less(i, j int) bool { return p.sign*compareCandidates(p.list[i], p.list[j]) < 0 }

// Swap keeps the places that candidates know.
func (p *pile) Swap(i, j int) {
	p.list[i], p.list[j] = p.list[j], p.list[i]
	p.list[i].at, p.list[j].at = i, j
}

// Push appends a candidate.
func (p *pile) Push(x any) {
	c := x.(*candidate)
	c.at = len(p.list)
	p.list = append(p.list, c)
}

// Pop takes the last away.
func (p *pile) Pop() any {
	last := len(p.list) - 1
	c := p.list[last]
	p.list[last] = nil
	p.list = p.list[:last]
	return c
}
