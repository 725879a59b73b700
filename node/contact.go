package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/outage"
)

const (
	// contactEvery is how old the last sign of life may be before one is asked
	// for: a quiet cluster sends something about once a minute.
	contactEvery = 10 * time.Second
	contactRetry = 2 * time.Second
)

// lastContact is when the API server last answered anything.
func (a *Agent) lastContact() time.Time {
	at := a.parts.Source.LastContact()
	if asked := a.answered.Load(); asked != nil && asked.After(at) {
		return *asked
	}
	return at
}

// countContact shows the last contact, where there is a cloud.
func (a *Agent) countContact() error {
	if a.parts.Cluster == nil {
		return nil
	}
	return a.parts.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gridmesh_last_contact_timestamp_seconds", Help: "When the API server last answered anything, to this agent or to one before it on the node; 0: never, as far as is known.",
	}, func() float64 {
		if at := a.knownContact(); !at.IsZero() {
			return float64(at.UnixMilli()) / 1e3
		}
		return 0
	}))
}

// knownContact is the last contact of this process, or of those before it, by the clock as
// it is set now, which is all that others see of it: a restart in an outage is no contact,
// for the metric, the status and the node's DNS alike.
func (a *Agent) knownContact() time.Time { return a.heardAt(a.clocks()).Shown() }

// heardAt is what is known of the last contact at a time.
func (a *Agent) heardAt(now outage.Clocks) outage.Heard {
	var was outage.Heard
	if looked := a.heard.Load(); looked != nil {
		was = *looked
	}
	at := a.lastContact()
	if known := a.known.Load(); at.IsZero() && known != nil {
		at = *known
	}
	return was.Next(a.moment(at), now)
}

// moment is a time of this process by the clocks of then.
func moment(at time.Time) outage.Clocks { return outage.Clocks{Now: at, Shown: at.Round(0)} }

// keepContact asks the API server for a sign of life where it sends none by
// itself, so that a quiet cluster is no outage.
func (a *Agent) keepContact(ctx context.Context) error {
	began := time.Now()
	for wait := contactEvery; run.Pause(ctx, wait); {
		last := a.lastContact()
		if last.Before(began) {
			last = began
		}
		if wait = contactEvery - time.Since(last); wait > 0 {
			continue
		}
		if err := a.parts.Cluster.Reachable(ctx); err != nil {
			wait = jitter(contactRetry)
			continue
		}
		now := a.clocks().Now
		a.answered.Store(&now)
		wait = contactEvery
	}
	return nil
}

// readClocks asks the kernel, which alone counts the time that it was suspended.
func readClocks() outage.Clocks {
	now := time.Now()
	c := outage.Clocks{Now: now, Shown: now.Round(0)}
	var since unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) == nil {
		c.Booted = time.Duration(since.Nano())
	}
	return c
}

// readClocks reads the clocks, and notes how long ago the last contact is.
func (l *loop) readClocks() (was, at outage.Clocks) {
	was, at = l.clocksAt, l.clocks()
	heard := l.heardAt(at)
	l.heard.Store(&heard)
	l.clocksAt = at
	return was, at
}

// noteContact notes a contact, and where the clocks say that the node slept, before that or
// after it.
func (l *loop) noteContact(contact time.Time, was, at outage.Clocks) {
	if !at.SleptBefore(l.moment(contact), was) {
		l.uplink.Contacted(contact)
	}
	if slept := at.Slept(was); slept > 0 {
		l.uplink.Slept(slept)
		if slept >= outage.After {
			l.said.slept.Say(l.log.Warn, "this node was suspended or paused, or its clock was set ahead; what the API server says of this unit next is taken as after an outage", obs.KeyAway, slept.Round(time.Second))
		}
	}
	l.uplink.Contacted(contact)
}

// jitter is d and up to a quarter more, so that many nodes do not ask at once.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4) }
