package capture

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// readEvery is how often Repair reads all of a table although nftables told of no
// change in it: what it tells may be lost without anybody knowing. At 10k Services the
// kernel path's takes some 0.8 s, which is a quarter of a percent of a core.
const readEvery = 5 * time.Minute

// known is up to where a table is known to be as it was written.
type known struct {
	gen    uint32        // the generation; 0 for unknown
	read   time.Time     // when all of it was read, and as it should be
	others *nft.Follower // of what others write; nil: unknown
	deaf   bool          // and that was said
}

// follow begins to follow what others write, where nobody does. Without it
// Repair reads more, and each begins again.
func (k *known) follow(conn *nft.Session, concerns func(nl.Message) bool, log *slog.Logger) {
	if k.others != nil {
		return
	}
	var err error
	k.others, err = nft.Follow(conn, concerns)
	if err != nil && !k.deaf && log != nil {
		log.Warn("cannot follow what others write into nftables: all rules and elements are read each time", obs.KeyErr, err)
	}
	k.deaf = err != nil
}

// still reports whether nobody wrote into the table up to a generation, as far as
// nftables told, and all of it was read not long ago.
func (k *known) still(gen uint32, now time.Time) bool {
	last := k.others.After(k.gen)
	if last == 0 || int32(last-gen) < 0 || now.Sub(k.read) >= readEvery {
		return false
	}
	k.gen = last
	return true
}

// note takes what was read for what is there.
func (k *known) note(gen uint32, now time.Time) { k.gen, k.read = gen, now }

// flush ends a transaction and makes it the next generation for sure. Without
// the stamp one that finds all as it should be would be none, and what somebody
// else wrote meanwhile would be taken for it.
func (k *known) flush(conn *nft.Session, stamp *nftables.Set, what string) error {
	known := k.others.After(k.gen)
	k.gen = 0
	conn.FlushSet(stamp)
	if err := conn.SetAddElements(stamp, []nftables.SetElement{{Key: []byte{0, 1}}}); err != nil {
		return fmt.Errorf("set %s: %w", stamp.Name, err)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", what, refused(err))
	}
	if known != 0 {
		k.gen = nft.NextGeneration(known)
	}
	return nil
}
