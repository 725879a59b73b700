package sim

import "time"

// grace is for how long a node has to have been fine: what is said of one that just came back
// may have been seen before.
const grace = 10 * time.Second

// judge holds verdicts against the truth.
type judge struct {
	counts    bool            // faults have begun
	believers []map[int]bool  // by node: who holds it for dead
	open      []bool          // it crashed, and no verdict came yet
	detected  []time.Duration // how long that took
	missed    int             // came back, or the run ended, before one came
	wrong     int
	cut       int
	early     int // wrong before anything had gone wrong
	writes    int
	changes   int // that are another verdict than stood there
	leases    int
}

func newJudge(n int) judge {
	j := judge{believers: make([]map[int]bool, n), open: make([]bool, n)}
	for i := range j.believers {
		j.believers[i] = map[int]bool{}
	}
	return j
}

// Verdict says that a node's agent holds another for dead, or does no more. As long as
// anybody does it is one verdict.
func (w *World) Verdict(by, about int, dead bool) {
	b := w.judge.believers[about]
	if b[by] == dead {
		return
	}
	if !dead {
		if delete(b, by); len(b) == 0 {
			w.Tracef("%s is dead to nobody any more", w.names[about])
		}
		return
	}
	if b[by] = true; len(b) > 1 {
		return
	}
	n := &w.nodes[about]
	how := "it is cut off"
	switch j := &w.judge; {
	case n.crashed:
		how = "it is dead"
		if j.open[about] {
			j.open[about] = false
			j.detected = append(j.detected, w.now-n.died)
		}
	case !n.fine || w.now-n.since < grace:
		if j.counts { // before that, agents that have not begun
			j.cut++
		}
	case j.counts:
		how = "wrong"
		j.wrong++
	default:
		how = "wrong, and early"
		j.early++
	}
	w.Tracef("%s holds %s for dead: %s", w.names[by], w.names[about], how)
}

// Dead reports whether a node holds another for dead.
func (w *World) Dead(by, about int) bool { return w.judge.believers[about][by] }

// Wrote counts a verdict that is written to the cloud, whether the same stood there.
func (w *World) Wrote(same bool) {
	if !w.judge.counts {
		return
	}
	w.judge.writes++
	if !same {
		w.judge.changes++
	}
}

// Leased counts a write of the unit's Lease.
func (w *World) Leased() {
	if w.judge.counts {
		w.judge.leases++
	}
}

// crash opens a question that a verdict answers; nobody may hold it for dead before.
func (j *judge) crash(i int) { j.open[i] = j.counts && len(j.believers[i]) == 0 }

func (j *judge) boot(i int) {
	if j.open[i] {
		j.open[i] = false
		j.missed++
	}
}

// silence forgets what an agent held that has ended.
func (j *judge) silence(by int) {
	for _, b := range j.believers {
		delete(b, by)
	}
}
