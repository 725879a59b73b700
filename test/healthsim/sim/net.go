package sim

import "time"

// What things weigh on the wire, in bytes, besides what is said in them.
const (
	// Packet is a UDP packet's IPv4 and UDP headers.
	Packet = 20 + 8
	// Connection is a TCP connection over IPv4 with timestamps that is opened and closed: SYN
	// and its answer with their options, and the segments without data, half of them each way.
	Connection = 60 + 60 + 6*52
)

// cost is what a node sent and received.
type cost struct {
	sent, received           int
	sentBytes, receivedBytes int
}

// carry counts a message.
func (w *World) carry(from, to, bytes int) {
	f, t := &w.nodes[from].cost, &w.nodes[to].cost
	f.sent, f.sentBytes = f.sent+1, f.sentBytes+bytes
	t.received, t.receivedBytes = t.received+1, t.receivedBytes+bytes
}

// passes reports whether a packet of a live node gets to another, by state and chance.
func (w *World) passes(from, to int) bool {
	f, t := &w.nodes[from], &w.nodes[to]
	if t.crashed || t.frozen || f.crashed || f.frozen || f.group != t.group {
		return false
	}
	if w.loss > 0 && w.rng.Float64() < w.loss {
		return false
	}
	return t.loss == 0 || w.rng.Float64() >= t.loss
}

func (w *World) delay() time.Duration { return w.Between(time.Millisecond, 10*time.Millisecond) }

// A check's attempts, by the defaults of health/check and of SuperEdge.
const (
	attempts       = 3
	attemptTimeout = time.Second
)

// Check has a node's agent dial others' kubelets, all at once, three times at most, and tells
// it who answered, in order, when the last is known.
func (w *World) Check(from int, targets []int, done func(well []bool)) {
	well := make([]bool, len(targets))
	took := 10 * time.Millisecond
	for i, to := range targets {
		for try := range attempts {
			w.carry(from, to, Connection/2)
			if w.nodes[to].natted || !w.passes(from, to) || !w.passes(to, from) {
				took = max(took, time.Duration(try+1)*attemptTimeout)
				continue
			}
			w.carry(to, from, Connection/2)
			well[i] = true
			break
		}
	}
	w.After(from, took, func() { done(well) })
}

// Call is a request over a TCP connection of its own.
type Call struct {
	Timeout time.Duration
	Bytes   int // of the request, with its headers
	// Serve is called at the other end, once; what it replies need not be at once.
	Serve func(reply func(bytes int, got func()))
	// Failed is called at this end where no reply came in time.
	Failed func()
}

const retransmit = 200 * time.Millisecond // TCP_RTO_MIN

// Call sends a request. Either Failed is called, or what is got.
func (w *World) Call(from, to int, c Call) {
	w.carry(from, to, c.Bytes+Connection/2)
	life, end, over := w.nodes[from].life, w.now+c.Timeout, false
	w.at(c.Timeout, func() {
		if !over {
			over = true
			w.deliver(from, life, c.Failed)
		}
	})
	opened, ok := w.open(from, to, end)
	if !ok {
		return
	}
	arrives, ok := w.segment(from, to, opened, end)
	if !ok {
		return
	}
	w.at(arrives-w.now, func() {
		n := &w.nodes[to]
		if !n.runs() && !n.crashed && !over { // refused
			over = true
			w.afterOf(from, life, w.delay(), c.Failed)
			return
		}
		w.deliver(to, n.life, func() {
			c.Serve(func(bytes int, got func()) {
				w.carry(to, from, bytes+Connection/2)
				back, ok := w.segment(to, from, w.now, end)
				if !ok {
					return
				}
				w.at(back-w.now, func() {
					if !over {
						over = true
						w.deliver(from, life, got)
					}
				})
			})
		})
	})
}

// open says when a TCP connection is there.
func (w *World) open(from, to int, end time.Duration) (time.Duration, bool) {
	if w.nodes[to].natted {
		return 0, false
	}
	for at, wait := w.now, time.Second; at < end; at, wait = at+wait, 2*wait {
		if w.passes(from, to) && w.passes(to, from) {
			return at + w.delay() + w.delay(), true
		}
	}
	return 0, false
}

// segment says when data that is sent on a connection from a time on gets there.
func (w *World) segment(from, to int, at, end time.Duration) (time.Duration, bool) {
	for wait := retransmit; at < end; at, wait = at+wait, 2*wait {
		if w.passes(from, to) {
			at += w.delay()
			return at, at <= end
		}
	}
	return 0, false
}

// mapped is for how long a NAT lets answers to a packet in.
const mapped = 30 * time.Second

// Send sends a packet, which nobody sends again. Who is behind NAT gets what answers it.
func (w *World) Send(from, to, bytes int, got func()) {
	w.carry(from, to, bytes+Packet)
	if w.nodes[from].natted {
		w.flows[[2]int{from, to}] = w.now
	}
	if w.nodes[to].natted {
		if at, ok := w.flows[[2]int{to, from}]; !ok || w.now-at > mapped {
			return
		}
	}
	if w.passes(from, to) {
		w.afterOf(to, w.nodes[to].life, w.delay(), got)
	}
}

// Dial opens a stream of bytes: it says when it is there, if it is by then.
func (w *World) Dial(from, to int, timeout time.Duration) (after time.Duration, ok bool) {
	w.carry(from, to, Connection/2)
	at, ok := w.open(from, to, w.now+timeout)
	return at - w.now, ok && w.nodes[to].runs()
}

// Answered counts that a stream is used the other way, Streamed what goes over it.
func (w *World) Answered(from, to int) { w.carry(from, to, Connection/2) }

// Streamed counts bytes of a stream.
func (w *World) Streamed(from, to, bytes int) {
	w.nodes[from].cost.sentBytes += bytes
	w.nodes[to].cost.receivedBytes += bytes
}
