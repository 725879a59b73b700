package sim

import "time"

// grace is for how long a node has to have been fine: what is said of one that just came back
// may have been seen before.
const grace = 10 * time.Second

// judge holds verdicts against the truth.
type judge struct {
	counts    bool            // faults have begun
	believers []map[int]bool  // by node: who holds it for dead
	held      []time.Duration // since when anybody does
	back      []time.Duration // for how long somebody still did, while it was fine
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
	j := judge{believers: make([]map[int]bool, n), held: make([]time.Duration, n), open: make([]bool, n)}
	for i := range j.believers {
		j.believers[i] = map[int]bool{}
	}
	return j
}

// inCloud is who believes what stands in the cloud.
const inCloud = -1

// Stands says that a node's verdict in the cloud is that it is dead, or is no more: who begins to
// lead takes it from there.
func (w *World) Stands(about int, dead bool) { w.Verdict(inCloud, about, dead) }

// Verdict says that a node's agent holds another for dead, or does no more. As long as
// anybody does it is one verdict.
func (w *World) Verdict(by, about int, dead bool) {
	b, n := w.judge.believers[about], &w.nodes[about]
	if b[by] == dead {
		return
	}
	if !dead {
		if delete(b, by); len(b) == 0 {
			w.Tracef("%s is dead to nobody any more", w.names[about])
			w.judge.alive(n, about, w.now)
		}
		return
	}
	if b[by] = true; len(b) > 1 {
		return
	}
	w.judge.held[about] = w.now
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
	who := "the cloud"
	if by != inCloud {
		who = w.names[by]
	}
	w.Tracef("%s holds %s for dead: %s", who, w.names[about], how)
}

// alive notes for how long somebody held a node for dead that was fine.
func (j *judge) alive(n *node, i int, now time.Duration) {
	if j.counts && n.fine {
		j.back = append(j.back, now-max(n.since, j.held[i]))
	}
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
func (w *World) silence(by int) {
	for about, b := range w.judge.believers {
		if !b[by] {
			continue
		}
		if delete(b, by); len(b) == 0 {
			w.judge.alive(&w.nodes[about], about, w.now)
		}
	}
}
