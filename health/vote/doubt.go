package vote

import (
	"maps"
	"slices"
	"time"
)

// few is of how many nodes that it checks most have to be gone before a node doubts itself:
// of two, both may be.
const few = 3

// doubt is why a node does not trust what it sees; empty where it does (Lifeguard, arXiv
// 1707.00788: a node that is slow itself takes others for dead). failed is of whom it checks
// round by round: of whom it is asked about most may well be dead.
func (m *Machine) doubt() string {
	switch {
	case m.late:
		return "its own round was late"
	case m.checked >= few && 2*m.failed > m.checked:
		return "it sees less than half of whom it checks"
	case m.refuted:
		return "it sees none of whom it checks, and they report to it"
	case m.view.Len() == 2 && !m.up:
		return "it is one of two, and does not reach the cloud"
	}
	return ""
}

// Answers are what this node says of others that it checked, of whom true are well. Who
// doubts itself denies nobody, and vouches for whom it sees.
func (m *Machine) Answers(checked map[string]bool) []Result {
	no := No
	if m.doubt() != "" {
		no = Abstain
	}
	list := make([]Result, 0, len(checked))
	for _, name := range slices.Sorted(maps.Keys(checked)) {
		switch {
		case !m.view.Has(name):
		case checked[name]:
			list = append(list, Result{name, Yes})
		default:
			list = append(list, Result{name, no})
		}
	}
	return list
}

// isLate reports whether a round begins so late that this node has missed answers, too.
func isLate(cfg *Config, since time.Duration) bool { return since > cfg.Every/2 }
