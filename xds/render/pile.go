package render

import "container/heap"

// pile is a heap of what knows its place in it: put and drop cost O(log n).
type pile[T any] struct {
	list    []T
	compare func(a, b T) int // what is less is on top
	place   func(T) *int     // where x keeps its place, from 1; 0 for none
}

func (p *pile[T]) top() T { return p.list[0] }

// put adds x, or finds its place anew.
func (p *pile[T]) put(x T) {
	if at := *p.place(x); at > 0 {
		heap.Fix(p, at-1)
		return
	}
	heap.Push(p, x)
}

// drop takes x out, if it is there.
func (p *pile[T]) drop(x T) {
	if at := *p.place(x); at > 0 {
		heap.Remove(p, at-1)
	}
}

// Len is of heap.Interface, as all below.
func (p *pile[T]) Len() int { return len(p.list) }

// Less puts what belongs on top before others.
func (p *pile[T]) Less(i, j int) bool { return p.compare(p.list[i], p.list[j]) < 0 }

// Swap keeps the places up to date.
func (p *pile[T]) Swap(i, j int) {
	p.list[i], p.list[j] = p.list[j], p.list[i]
	*p.place(p.list[i]), *p.place(p.list[j]) = i+1, j+1
}

// Push appends one.
func (p *pile[T]) Push(x any) {
	p.list = append(p.list, x.(T))
	*p.place(x.(T)) = len(p.list)
}

// Pop takes the last away.
func (p *pile[T]) Pop() any {
	var none T
	last := len(p.list) - 1
	x := p.list[last]
	p.list[last] = none
	p.list = p.list[:last]
	*p.place(x) = 0
	return x
}
