package statedir

import "time"

// StartPatience is how long a start waits for its disk, in all: the guard comes
// before whatever a disk that hangs may have to say.
const StartPatience = 700 * time.Millisecond

// Budget is a time that several waits share. It begins with the first of them.
// It has one owner.
type Budget struct {
	Of  time.Duration
	end time.Time
}

// Left is what there is of it.
func (b *Budget) Left() time.Duration {
	if b.end.IsZero() {
		b.end = time.Now().Add(b.Of)
	}
	return max(0, time.Until(b.end))
}
