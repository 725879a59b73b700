package capture

import (
	"errors"
	"testing"

	"github.com/google/nftables"

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
