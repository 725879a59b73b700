package answer

import (
	"cmp"
	"hash/maphash"
	"iter"
)

// record is one PTR record of an address: a Service, or a host below it.
type record struct{ service, host string }

func (r record) compare(o record) int {
	return cmp.Or(cmp.Compare(r.service, o.service), cmp.Compare(r.host, o.host))
}

// One seed a process is enough: trees are of one process.
var recordSeed = maphash.MakeSeed()

// above reports whether a record is nearer to the root than another. Who chooses
// names does not choose that, and so no tree is deep.
func (r record) above(o record) bool {
	return cmp.Or(cmp.Compare(maphash.Comparable(recordSeed, r), maphash.Comparable(recordSeed, o)), r.compare(o)) > 0
}

// ptr is the records of one address, a treap: Services may have one pod by the
// thousand, and a change of one of them costs what a path does. It is immutable;
// nil is none.
type ptr struct {
	record
	less, more *ptr
}

// all yields every record, in order.
func (p *ptr) all() iter.Seq[record] {
	return func(yield func(record) bool) { p.each(yield) }
}

func (p *ptr) each(yield func(record) bool) bool {
	return p == nil || p.less.each(yield) && yield(p.record) && p.more.each(yield)
}

// with is the records with r.
func (p *ptr) with(r record) *ptr {
	if p == nil || r.above(p.record) {
		less, more := p.split(r)
		return &ptr{r, less, more}
	}
	switch order := r.compare(p.record); {
	case order < 0:
		return &ptr{p.record, p.less.with(r), p.more}
	case order > 0:
		return &ptr{p.record, p.less, p.more.with(r)}
	}
	return p
}

// without is the records without r.
func (p *ptr) without(r record) *ptr {
	if p == nil {
		return nil
	}
	switch order := r.compare(p.record); {
	case order < 0:
		return &ptr{p.record, p.less.without(r), p.more}
	case order > 0:
		return &ptr{p.record, p.less, p.more.without(r)}
	}
	return p.less.join(p.more)
}

// split returns the records before r, and those after it.
func (p *ptr) split(r record) (less, more *ptr) {
	switch {
	case p == nil:
		return nil, nil
	case r.compare(p.record) < 0:
		less, more = p.less.split(r)
		return less, &ptr{p.record, more, p.more}
	}
	less, more = p.more.split(r)
	return &ptr{p.record, p.less, less}, more
}

// join is the records of both, of which those of o come after those of p.
func (p *ptr) join(o *ptr) *ptr {
	switch {
	case p == nil:
		return o
	case o == nil:
		return p
	case p.above(o.record):
		return &ptr{p.record, p.less, p.more.join(o)}
	}
	return &ptr{o.record, p.join(o.less), o.more}
}
