package vote

import (
	"slices"
	"time"
)

// quorum is since when more than half of the unit are heard, and until when they are.
type quorum struct {
	since   time.Time // without a gap; zero where they are not
	until   time.Time // if nothing more is heard
	counted time.Time
}

// hears reports whether more than half of the unit were heard of late, and answered if they
// were asked, and for so long that this node was told, too: who begins anew, or was cut off,
// would lead before it knows who is dead. This node is one.
func (m *Machine) hears(now time.Time) bool {
	return !now.Before(m.unheard) && m.majority(now) && now.Sub(m.quorum.since) >= m.cfg.Fresh
}

// majority counts where what was counted last may be so no more.
func (m *Machine) majority(now time.Time) bool {
	if m.quorum.since.IsZero() || now.After(m.quorum.until) {
		m.count(now)
	}
	return !m.quorum.since.IsZero()
}

// count counts who is heard. For how long it did not, a starved node, nothing is known.
func (m *Machine) count(now time.Time) {
	need := m.view.Len()/2 + 1
	if m.view.Len() == 2 {
		need = 1
	}
	var at []time.Time
	for _, h := range m.heard {
		if h.fresh(now, &m.cfg) {
			at = append(at, h.at)
		}
	}
	q := &m.quorum
	if len(at) < need {
		*q = quorum{counted: now}
		return
	}
	if q.since.IsZero() || now.Sub(q.counted) > m.cfg.Fresh {
		q.since = now
	}
	slices.SortFunc(at, time.Time.Compare)
	q.until, q.counted = at[len(at)-need].Add(m.cfg.Fresh), now
}
