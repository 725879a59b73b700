package capture

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// One process at a time keeps the rules of a network, and nobody can take its
// lock away.
func TestLockIsOfTheNetwork(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	for name, lock := range map[string]func() (func(), error){"a table": Lock, "a socket, on old kernels": lockSocket} {
		t.Run(name, func(t *testing.T) {
			unlock, err := lock()
			must(t, err)
			defer unlock()
			must(t, node.Add().Do(func() error { return exclusive(t, lock) })) // beside it
		})
	}
}

func exclusive(t *testing.T, lock func() (func(), error)) error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	conn.FlushRuleset()
	if err := conn.Flush(); err != nil {
		return err
	}
	if _, err := lock(); !errors.Is(err, run.ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	unlock()
	again, err := lock()
	if err == nil {
		again()
	}
	return err
}

// A cleanup beside an agent would darken the node.
func TestCleanupBesideAnAgent(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	unlock, err := Lock()
	must(t, err)
	before := everything(t)
	if err := Cleanup(t.Context(), c.cfg, c.host); !errors.Is(err, run.ErrInUse) || everything(t) != before {
		t.Errorf("cleanup beside an agent: %v", err)
	}
	unlock()
	must(t, Cleanup(t.Context(), c.cfg, c.host))
}

// A table outlives the socket of its owner for as long as somebody else has that socket, as a child
// that is on its way to be another program: who comes then waits for a moment.
func TestALockThatEndsLate(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	conn, err := nl.Dial(unix.NETLINK_NETFILTER, nil)
	must(t, err)
	must(t, makeOwned(conn))
	child := duplicate(t, conn)
	must(t, conn.Close())
	if table := findLock(); table == nil || !isOwned(table) {
		t.Fatalf("the table has ended with the first who closed it: %+v", table)
	}
	time.AfterFunc(lockPatience/4, func() { _ = unix.Close(child) })
	unlock, err := Lock()
	must(t, err)
	unlock()
}

func duplicate(t *testing.T, conn *nl.Conn) (fd int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	must(t, err)
	var failed error
	must(t, raw.Control(func(of uintptr) { fd, failed = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }))
	must(t, failed)
	return fd
}

// The right is named where it is missing, and nowhere else.
func TestWhyThereIsNoLock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err                   error
		there, may            bool
		locked, rights, again bool
	}{
		"another's table":           {err: unix.EEXIST, there: true, may: true, locked: true},
		"one that is not to be had": {err: unix.EPERM, there: true, may: true, locked: true},
		"one that ended just now":   {err: unix.EPERM, may: true, again: true},
		"no right":                  {err: unix.EPERM, rights: true},
		"anything else":             {err: unix.ENOMEM, may: true},
	} {
		err := whyNot(tc.err, tc.there, tc.may)
		if errors.Is(err, run.ErrInUse) != tc.locked || errors.Is(err, errRefused) != tc.again || strings.Contains(err.Error(), "needs CAP_NET_ADMIN") != tc.rights {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.NewNetwork(t)
	without(t, unix.CAP_NET_ADMIN)
	if _, err := Lock(); !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "needs CAP_NET_ADMIN") {
		t.Errorf("without the right: %v", err)
	}
}

// A table of the lock's name that no process owns, as of a rule set that was
// saved beside an agent, is no lock; one that has an owner is not removed.
func TestLockThatNobodyHolds(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	must(t, node.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		table := conn.AddTable(&nftables.Table{Name: lockName, Family: nftables.TableFamilyINet})
		conn.AddChain(&nftables.Chain{Name: "left", Table: table})
		if err := conn.Flush(); err != nil {
			return err
		}
		unlock, err := Lock()
		if err != nil {
			return err
		}
		if table := findLock(); table == nil || !isOwned(table) || removeUnowned() {
			t.Errorf("the lock is %+v", table)
		}
		unlock()
		return exclusive(t, Lock)
	}))
}
