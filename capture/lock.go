package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	mathbits "math/bits"
	"net"
	"slices"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/run"
)

// lockName is the table, or on old kernels the socket, whose maker holds the
// lock of a network.
const lockName = rules.Name + "-lock"

// Lock makes this process the only one that writes the rules of the network it
// is in, whatever its state directory and the name of its node, until unlock or
// its end; run.ErrInUse where another one is. Call it before Install.
//
// It is an empty table of nftables, which only the network's administrators can
// make: a name among abstract sockets could be taken by any process of the
// node, and stands in only where the kernel knows no owners (before 5.12).
func Lock() (unlock func(), err error) {
	for end := time.Now().Add(lockPatience); ; time.Sleep(lockRetry) {
		unlock, err = tryLock()
		if !errors.Is(err, run.ErrInUse) && !errors.Is(err, errRefused) || time.Now().After(end) {
			return unlock, err
		}
	}
}

// How long and how often a lock is tried: a table ends with the last holder of its owner's
// socket, and a child that is on its way to be another program is one for a moment.
const (
	lockPatience = time.Second
	lockRetry    = 20 * time.Millisecond
)

func tryLock() (unlock func(), err error) {
	conn, err := nl.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	err = makeOwned(conn)
	if errors.Is(err, unix.EEXIST) && removeUnowned() {
		err = makeOwned(conn)
	}
	switch {
	case err == nil:
		return func() { _ = conn.Close() }, nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		_ = conn.Close()
		return lockSocket()
	}
	return nil, errors.Join(whyNot(err, findLock() != nil, mayAdminister()), conn.Close())
}

// errRefused is that the kernel does not permit the table to who has the right to make it: it
// was another's until just now, or the network is no network of his.
var errRefused = errors.New("the kernel does not permit it, though this process has CAP_NET_ADMIN: see that it is in the user namespace of this network")

// whyNot says why the table was not made: there is one, or this process has the right to, or
// neither.
func whyNot(err error, there, may bool) error {
	switch {
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.EPERM) && there:
		return errLocked
	case errors.Is(err, unix.EPERM) && may:
		return fmt.Errorf("lock this network: %w: %w", errRefused, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("lock this network: changing its rules needs CAP_NET_ADMIN: %w", err)
	}
	return fmt.Errorf("lock this network: %w", err)
}

// mayAdminister reports whether this thread has CAP_NET_ADMIN.
func mayAdminister() bool {
	var sets [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0])
	return err == nil && sets[0].Effective&(1<<unix.CAP_NET_ADMIN) != 0
}

var errLocked = fmt.Errorf("%w: another gridmesh-agent, or a cleanup, keeps the rules of this network (nftables table inet %s); stop it first", run.ErrInUse, lockName)

// makeOwned makes the table, which must not be there.
func makeOwned(conn *nl.Conn) error {
	batch, err := nft.Batch(nl.Message{Header: nl.Header{Type: nft.Message(unix.NFT_MSG_NEWTABLE), Flags: nl.Request | nl.Acknowledge | nl.Create | nl.Excl}},
		nftables.TableFamilyINet, []nl.Attribute{
			{Type: unix.NFTA_TABLE_NAME, Data: []byte(lockName + "\x00")},
			{Type: unix.NFTA_TABLE_FLAGS, Data: binary.BigEndian.AppendUint32(nil, nft.TableOwner)},
		})
	if err != nil {
		return err
	}
	if _, err := conn.SendMessages(batch); err != nil {
		return err
	}
	_, err = conn.Receive() // the acknowledgement
	return err
}

// findLock returns the table, nil where there is none to be seen. Where its
// making was not permitted it reports whether the lock was the reason: somebody
// else's table is no more permitted than any without privileges.
func findLock() *nftables.Table {
	conn, err := nftables.New()
	if err != nil {
		return nil
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == lockName }); err == nil && i >= 0 {
		return tables[i]
	}
	return nil
}

// isOwned reads the flags, which the kernel has in the order of the network and
// the library takes as the machine's.
func isOwned(t *nftables.Table) bool {
	return (t.Flags|mathbits.ReverseBytes32(t.Flags))&nft.TableOwner != 0
}

// removeUnowned removes the table if it has no owner: it is of no process, but of
// a rule set that was saved beside an agent and read in again. If an agent takes
// the lock meanwhile, the kernel keeps its table.
func removeUnowned() (removed bool) {
	table := findLock()
	if table == nil || isOwned(table) {
		return table == nil // it ended with its owner
	}
	conn, err := nftables.New()
	if err != nil {
		return false
	}
	conn.DelTable(table)
	return conn.Flush() == nil
}

// lockSocket holds a name among the network's abstract sockets.
func lockSocket() (unlock func(), err error) {
	l, err := net.Listen("unix", "@"+lockName)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("%w: another process holds the abstract socket @%s of this network; stop that gridmesh-agent first", run.ErrInUse, lockName)
	case err != nil:
		return nil, fmt.Errorf("lock this network: %w", err)
	}
	return func() { _ = l.Close() }, nil
}
