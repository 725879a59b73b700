package node

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
)

const (
	// askServesEvery is how often Envoy is asked whether it serves; the end of its
	// stream is a reason to ask at once.
	askServesEvery = time.Second
	// servesWithin is how long that may take.
	servesWithin = 2 * time.Second
)

// The kernel serves for an absent Envoy at once. Envoy gets new connections back
// after it has answered for a while: each change of the path is felt by those who
// dial at that moment, and one that falls again and again would be felt all the time.
const (
	servesFirst = 3 * time.Second
	servesMost  = 2 * time.Minute
	servesCalm  = 10 * time.Minute
)

// absence is what is known of Envoy, from who asks it to the loop.
type absence struct {
	known   bool      // it could be asked once
	absent  bool      // what counts: the kernel serves for it
	why     string    // of absent: why it began
	back    time.Time // of absent: when it gets new connections again, if it goes on serving; zero where it does not serve
	unasked string    // why it cannot be asked any more; "" where it could the last time
}

// fallsOfEnvoy has one that starts with its agent, and so has not fallen, get connections as
// soon as it serves: the kernel, which does not know who is dead, served for it. Those that
// fall later wait for servesFirst and more (next).
func fallsOfEnvoy() damper { return damper{most: servesMost, calm: servesCalm} }

// next takes an answer of that time.
func (w absence) next(counts *damper, err error, at time.Time) absence {
	if errors.Is(err, ErrNotKnown) {
		counts.unknown()
		w.back = time.Time{}
		if w.unasked == "" {
			w.unasked = err.Error()
		}
		return w
	}
	was := w.absent
	w.known, w.absent, w.unasked = true, counts.take(err != nil, at), ""
	if !w.absent {
		counts.first = servesFirst
	}
	if w.back = counts.until(); !was && w.absent { // later ones may have other words each time
		w.why = err.Error()
	}
	return w
}

// followAbsence keeps asking Envoy whether it serves. It is not its stream that
// counts: one that lost that goes on with what it holds, and one that hangs has it.
func (a *Agent) followAbsence(ctx context.Context) error {
	counts, now, stranger := fallsOfEnvoy(), absence{}, false
	for {
		within, cancel := context.WithTimeout(ctx, servesWithin)
		err := a.parts.EnvoyServes(within)
		cancel()
		if is := errors.Is(err, capture.ErrStranger); is != stranger { // the findings name it
			stranger = is
			fill(a.inspection)
		}
		if next := now.next(&counts, err, time.Now()); ctx.Err() == nil && next != now {
			now = next
			a.absence.Publish(now)
			fill(a.paths)
		}
		select {
		case <-time.After(askServesEvery):
		case <-a.streamed:
		case <-ctx.Done():
			return nil
		}
	}
}

// tellOfStreams has Envoy asked when a stream of it begins and when it ends.
func (a *Agent) tellOfStreams(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	fill(a.streamed)
	defer fill(a.streamed)
	return handle(srv, s)
}

// takeAbsence has the kernel path serve for Envoy, or Envoy again.
func (l *loop) takeAbsence() {
	now, _ := l.absence.Get()
	was := l.envoys
	if now == was {
		return
	}
	l.envoys = now
	if now.unasked != "" && was.unasked == "" {
		l.said.unasked.Say(l.log.Warn, "cannot ask whether Envoy serves, for a reason of the agent's own or of the node's; what was known goes on", obs.KeyErr, now.unasked)
	}
	if now.known && (!was.known || was.absent != now.absent) {
		l.switchPath(now, !was.known)
	}
	l.publish()
}

// switchPath tells the kernel who takes new connections.
func (l *loop) switchPath(now absence, first bool) {
	l.metrics.absent.Set(map[bool]float64{true: 1}[now.absent])
	switch {
	case now.absent:
		l.metrics.absences.Inc()
		l.said.absent.Say(l.log.Warn, "Envoy takes no connections; the kernel serves the first tier of what it served", obs.KeyErr, now.why)
	case !first:
		l.said.absent.Say(l.log.Info, "Envoy takes connections again")
	}
	if !now.absent && !first {
		l.await(l.catalog.Names()) // what came while it was away
	}
	l.tellPath()
}
