package sim

import "time"

// node is the truth about one.
type node struct {
	life    uint32 // another one with each beginning of its agent
	begun   bool   // its agent runs
	crashed bool   // the node does not
	frozen  bool   // nothing on it runs, for a while
	stopped bool   // its agent does not, for a while
	inbox   []func()
	group   int           // only within it packets pass
	natted  bool          // nobody dials it
	dark    bool          // it has no uplink
	loss    float64       // of what is sent to it
	clock   time.Duration // what its own is ahead
	cost    cost

	fine  bool          // it runs, and no more than half cannot reach it
	since time.Duration // that is so
	died  time.Duration // when it crashed
}

// runs reports whether the node has an agent.
func (n *node) runs() bool { return n.begun && !n.crashed }

// begin begins a node's agent.
func (w *World) begin(i int) {
	n := &w.nodes[i]
	if n.crashed || n.begun {
		return
	}
	n.life++
	n.begun, n.inbox = true, nil
	w.changed()
	w.what.Start(i)
	w.what.Uplink(i, !n.dark)
}

// end ends a node's agent, and all that it knew.
func (w *World) end(i int) {
	n := &w.nodes[i]
	n.life++
	n.begun, n.stopped, n.inbox = false, false, nil
	w.silence(i)
	if p, ok := w.what.(Ender); ok {
		p.End(i)
	}
}

// Life is that of a node's agent: another one after it began anew.
func (w *World) Life(i int) uint32 { return w.nodes[i].life }

// Runs reports whether a node's agent is the one of a life, and has not ended.
func (w *World) Runs(i int, life uint32) bool { return w.nodes[i].life == life && w.nodes[i].runs() }

// crash ends a node.
func (w *World) crash(i int) {
	w.end(i)
	n := &w.nodes[i]
	n.crashed, n.frozen, n.died = true, false, w.now
	w.judge.crash(i)
	w.Tracef("%s dies", w.names[i])
	w.changed()
}

// boot begins a node that crashed.
func (w *World) boot(i int) {
	w.nodes[i].crashed = false
	w.judge.boot(i)
	w.Tracef("%s comes back", w.names[i])
	w.begin(i)
}

// restart ends a node's agent, and begins it anew after some time.
func (w *World) restart(i int, down time.Duration) {
	if n := &w.nodes[i]; !n.runs() || n.frozen || n.stopped {
		return
	}
	w.Tracef("the agent of %s begins anew", w.names[i])
	w.end(i)
	w.at(down, func() { w.begin(i) })
}

// hold has a node, or its agent alone, stand still for some time; then it has all at once.
func (w *World) hold(i int, d time.Duration, whole bool) {
	n := &w.nodes[i]
	if !n.runs() || n.frozen || n.stopped {
		return
	}
	what := "the agent of " + w.names[i]
	if n.frozen = whole; whole {
		what = w.names[i]
	}
	n.stopped = !whole
	w.Tracef("%s stands still for %s", what, d.Round(time.Millisecond))
	w.changed()
	life := n.life
	w.at(d, func() {
		if n.life != life {
			return
		}
		inbox := n.inbox
		n.frozen, n.stopped, n.inbox = false, false, nil
		w.changed()
		for _, do := range inbox {
			w.deliver(i, life, do)
		}
	})
}

// divide puts nodes into groups between which no packet passes.
func (w *World) divide(group func(i int) int) {
	for i := range w.nodes {
		w.nodes[i].group = group(i)
	}
	w.changed()
}

// darken takes a node's uplink, or gives it back.
func (w *World) darken(i int, dark bool) {
	n := &w.nodes[i]
	if n.dark == dark {
		return
	}
	n.dark = dark
	w.Tracef("%s has an uplink: %t", w.names[i], !dark)
	if n.runs() {
		after := w.Between(7*time.Second, 12*time.Second) // health.FollowUplink: asks every 5 s, with 3 s of patience, and again a second after a miss
		if !dark {
			after = w.Between(0, 8*time.Second)
		}
		w.afterOf(i, n.life, after, func() { w.what.Uplink(i, !n.dark) })
	}
}

// Clock is what a node's own clock is ahead of the truth.
func (w *World) Clock(i int) time.Duration { return w.nodes[i].clock }

// Posts reports whether a node's kubelet reaches the cloud.
func (w *World) Posts(i int) bool {
	n := &w.nodes[i]
	return !n.crashed && !n.frozen && !n.dark
}

// Writes reports whether a node's agent can write to the cloud now.
func (w *World) Writes(i int) bool { return w.Posts(i) && w.nodes[i].begun && !w.nodes[i].stopped }

// changed finds anew which nodes are fine.
func (w *World) changed() {
	clear(w.alive)
	all := 0
	for i := range w.nodes {
		if n := &w.nodes[i]; !n.crashed {
			w.alive[n.group]++
			all++
		}
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		without := all - w.alive[n.group] // live nodes that cannot reach it
		if n.natted {
			without = all - 1
		}
		was := n.fine
		n.fine = !n.crashed && !n.frozen && 2*without <= len(w.nodes)
		if n.fine && !was {
			n.since = w.now
		}
	}
}
