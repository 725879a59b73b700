package typed

import (
	"time"

	"github.com/gridmesh/gridmesh/kube/internal/lists"
)

// patience is for how long lists must agree that are empty where something was known: more
// than an API server takes to start, or to be replaced.
const patience = time.Minute

// judged has lists held back as feed holds them back: what was known stays, and it is listed
// anew until lists agree. What a watch tells is believed.
func (m *Mirror[T]) judged() *Mirror[T] {
	j := lists.NewJudge[string](lists.Selection{Name: m.what, Patience: patience})
	m.judge = &j
	return m
}

// believes reports whether a list is believed, and else has it looked at again. The lock is
// held, as by told and doubted.
func (m *Mirror[T]) believes(next map[string]T, now time.Time) bool {
	if m.judge == nil {
		return true
	}
	weights := make(map[string]int, len(next))
	for key := range next {
		weights[key] = 1
	}
	m.judge.Lost.Forget(now)
	l := lists.Weigh(m.all, func(T) int { return 1 }, m.judge.Lost, weights)
	l.Alone = true
	if !m.judge.Believe(l, now) {
		m.again.After(m.judge.Next(now, lists.FirstLook))
		return false
	}
	return true
}

// told notes an event about an object.
func (m *Mirror[T]) told(key string) {
	if m.judge != nil {
		delete(m.judge.Lost, key)
	}
}

// doubted is why the last list is held back, or nil.
func (m *Mirror[T]) doubted() error {
	if m.judge == nil {
		return nil
	}
	return m.judge.Held.Err
}
