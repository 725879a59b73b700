package capture

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// number notes when connections were first seen.
func (c *Clients) number(open []sockdiag.Socket) {
	c.looks++
	first := make(map[sockdiag.ID]uint32, len(open))
	for _, s := range open {
		n, seen := c.first[s.ID]
		if !seen {
			n = c.looks
		}
		first[s.ID] = n
	}
	c.first = first
}

// opened is who opened a connection, and a number that is higher the later: by the look
// that saw it first, and of those by the inode of Envoy's end, for the kernel does not tell how
// old one is. It numbers inodes upwards, a thousand at a time for each core, and from the
// first on again after four billion.
func (c *Clients) opened(s sockdiag.Socket) (client netip.Addr, number uint64) {
	return s.Peer.Addr(), uint64(c.first[s.ID])<<32 | uint64(s.Inode)
}

// makeRoom closes what clients, all of whom are refused more by now, hold above
// their share: what was opened before anybody counted would keep all others
// out for as long as its client likes. One that does not close is left in
// c.unclosed.
func (c *Clients) makeRoom(conn *sockdiag.Conn, excess []sockdiag.Socket, now time.Time) {
	for _, s := range excess {
		err := c.destroy(conn, s)
		if errors.Is(err, unix.EOPNOTSUPP) {
			break // no CONFIG_INET_DIAG_DESTROY: that more is refused has to do
		}
		switch {
		case err == nil:
			c.excess[s.Peer.Addr()]++
			c.removed.Add(1)
		case vanished(err):
		case c.unclosed == nil: // one stands for all
			c.unclosed = fmt.Errorf("close a connection of %s, which holds more than its share: %w", s.Peer, err)
		}
	}
	c.sayExcess(now)
}

// sayExcess tells how many connections were closed since it said so last, and
// the first few whose they were.
func (c *Clients) sayExcess(now time.Time) {
	if len(c.excess) == 0 || now.Sub(c.toldExcess) < sayEvery {
		return
	}
	closed := 0
	for _, n := range c.excess {
		closed += n
	}
	whose := slices.SortedFunc(maps.Keys(c.excess), netip.Addr.Compare)
	c.log.Warn("Envoy took hardly any more connections: closed those that clients held above their share",
		obs.KeyConnections, closed, obs.KeyWhich, whose[:min(len(whose), 3)])
	clear(c.excess)
	c.toldExcess = now
}

// vanished reports whether a connection that was to be closed was closed meanwhile.
func vanished(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESTALE) }
