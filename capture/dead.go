package capture

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

const (
	// timerResend and timerProbe of linux/inet_diag.h: the kernel waits for an
	// answer to data, or to its question whether there is room for more.
	timerResend, timerProbe = 1, 4
	// unansweredFrom is how many questions in a row tell a client that may be
	// gone from a packet that was lost.
	unansweredFrom = 3
	// clientTimeout is for how long a client may leave them unanswered. One
	// that is idle has as long (keepalive: xds/render).
	clientTimeout = 90 * time.Second
)

// unanswered reports whether the peer does not answer at the moment. One that
// is there and does not read answers all the same.
func unanswered(s *sockdiag.Socket) bool {
	return (s.Timer == timerResend || s.Timer == timerProbe) && s.Retries >= unansweredFrom
}

// closeDead ends the connections of clients that are gone, and returns the
// others: with data on its way to it the kernel would wait a quarter of an hour
// for such a client, and nobody asks for a sign of life meanwhile. One that does
// not close counts on, and is left in c.unclosed: it keeps nobody from being
// counted.
func (c *Clients) closeDead(conn *sockdiag.Conn, open []sockdiag.Socket, now time.Time) []sockdiag.Socket {
	defer c.sayClosed(now)
	var waiting []sockdiag.ID
	for _, s := range open {
		if unanswered(&s) {
			waiting = append(waiting, s.ID)
		}
	}
	dead := map[sockdiag.ID]bool{}
	for _, id := range c.stalled.Judge(waiting, now, clientTimeout) {
		dead[id] = true
	}
	if len(dead) == 0 {
		return open
	}
	left := make([]sockdiag.Socket, 0, len(open))
	for _, s := range open {
		if !dead[s.ID] {
			left = append(left, s)
			continue
		}
		switch err := c.destroy(conn, s); {
		case err == nil, vanished(err):
			c.closed++
			continue
		case errors.Is(err, unix.EOPNOTSUPP): // no CONFIG_INET_DIAG_DESTROY: the kernel has to find out
		case c.unclosed == nil: // one stands for all
			c.unclosed = fmt.Errorf("close the connection of %s, which does not answer: %w", s.Peer, err)
		}
		left = append(left, s)
	}
	return left
}

// sayClosed tells how many connections were closed since it said so last.
func (c *Clients) sayClosed(now time.Time) {
	if c.closed > 0 && now.Sub(c.toldClosed) >= sayEvery {
		c.log.Info("closed connections of clients that did not answer any more", obs.KeyConnections, c.closed)
		c.closed, c.toldClosed = 0, now
	}
}
