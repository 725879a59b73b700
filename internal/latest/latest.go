// Package latest holds the newest of something that one side makes and others
// follow.
//
// A Value carries state, not a stream of changes: who is slow skips what came
// in between and finds the newest. A wake-up carries nothing and is never
// lost, so no queue can overflow and no reader can hold up the writer.
package latest

import (
	"slices"
	"sync"
	"time"
)

// Put leaves the newest in a channel of one slot, into which nobody else sends.
func Put[T any](ch chan T, t T) {
	select {
	case <-ch:
	default:
	}
	ch <- t // there is room
}

// Value is the newest T, and when its origin was last in contact. The zero
// Value is ready for use; what is published must not be written to any more.
type Value[T any] struct {
	mu        sync.Mutex
	value     T
	published bool
	contact   time.Time
	waiters   []chan struct{}
}

// Publish makes value the newest and wakes everybody who waits.
func (v *Value[T]) Publish(value T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.publish(value)
}

// PublishFirst publishes value where nothing was before, and reports whether it did:
// what is older than whatever others publish.
func (v *Value[T]) PublishFirst(value T) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.published {
		return false
	}
	v.publish(value)
	return true
}

func (v *Value[T]) publish(value T) {
	v.value, v.published = value, true
	for _, w := range v.waiters {
		select {
		case w <- struct{}{}:
		default: // woken already, and has not read yet
		}
	}
}

// Get returns the newest value; false before the first.
func (v *Value[T]) Get() (T, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.published
}

// Wake returns a channel of one slot, which is filled at every Publish, and at
// once where something is published already. It is filled until Forget.
func (v *Value[T]) Wake() <-chan struct{} {
	w := make(chan struct{}, 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiters = append(v.waiters, w)
	if v.published {
		w <- struct{}{}
	}
	return w
}

// Forget ends what Wake began.
func (v *Value[T]) Forget(wake <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiters = slices.DeleteFunc(v.waiters, func(w chan struct{}) bool { return w == wake })
}

// Contacted notes that the origin of the values was alive at a time.
func (v *Value[T]) Contacted(at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.contact = at
}

// LastContact returns when the origin of the values was last in contact, zero
// for never. The newest value is no older.
func (v *Value[T]) LastContact() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.contact
}
