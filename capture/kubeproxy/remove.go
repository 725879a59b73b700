package kubeproxy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
)

// perTransaction bounds the chains that one transaction empties or removes.
const perTransaction = 1000

// shared are the tables of iptables in which kube-proxy has chains.
var shared = []string{"nat", "filter", "mangle"}

// rounds bound how often what is there is looked at and taken away: others may write, or
// remove, at the same time.
const rounds = 20

// errLeft says that something came, or went, whenever it was taken away.
var errLeft = fmt.Errorf("others write all the time: chains of kube-proxy are left after %d looks", rounds)

// Remove takes away the tables of kube-proxy, and its chains of iptables, until it finds
// none. New connections no longer meet them from the first transaction of a family on; open
// ones stay translated, which is conntrack's, as long as somebody translates addresses in
// this network. What Rules.Stays is about stays.
func Remove() error {
	conn := nft.Open()
	defer conn.Close()
	var errs []error
	for _, f := range families {
		proxy := &nftables.Table{Name: Table, Family: f.family}
		there, err := conn.HasTable(proxy)
		if there {
			conn.DelTable(proxy)
			if err = conn.Flush(); errors.Is(err, unix.ENOENT) {
				err = nil // it has gone
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove nftables table %s %s: %w", f.name, Table, err))
		}
		if err := removeChains(conn, f.family); err != nil {
			errs = append(errs, fmt.Errorf("remove kube-proxy's chains of iptables (%s): %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// removeChains removes those of iptables. What a torn list lacks, and what was spoilt by
// somebody who removes them, too, is for the next round.
func removeChains(conn *nft.Session, family nftables.TableFamily) error {
	var last error
	for range rounds {
		found, torn, err := removeOnce(conn, family)
		switch {
		case err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBUSY):
			return err
		case err != nil || found:
			last = errors.Join(errLeft, err)
		case torn:
			last = nil
		default:
			return nil
		}
	}
	return last
}

// removeOnce takes away what a look finds, and reports whether there was any, and whether
// there may be more. What leads there goes in one transaction for all tables, and then
// nobody meets what is left.
func removeOnce(conn *nft.Session, family nftables.TableFamily) (found, torn bool, err error) {
	removals := map[*nftables.Table]removal{}
	for _, name := range shared {
		t := &nftables.Table{Name: name, Family: family}
		c, err := contentsOf(conn, t)
		if err != nil {
			return found, torn, err
		}
		r := c.removal()
		found, torn, removals[t] = found || len(r.entries)+len(r.chains) > 0, torn || c.torn, r
	}
	for t, r := range removals {
		for _, j := range r.entries {
			if err := conn.DelRule(&nftables.Rule{Table: t, Chain: &nftables.Chain{Table: t, Name: j.Chain}, Handle: j.Handle}); err != nil {
				return found, torn, err
			}
		}
	}
	if err := conn.Flush(); err != nil {
		return found, torn, fmt.Errorf("take them out of force: %w", err)
	}
	for t, r := range removals {
		if err := dropChains(conn, t, r.chains); err != nil {
			return found, torn, err
		}
	}
	return found, torn, nil
}

// contentsOf reads the names of a table's chains, and where those lead that are not
// kube-proxy's: its own are many, and nobody has to know what is in them.
func contentsOf(conn *nft.Session, t *nftables.Table) (contents, error) {
	var c contents
	var others []string
	err := conn.EachChain(t, func(name string) {
		if own(name) {
			c.chains = append(c.chains, name)
		} else {
			others = append(others, name)
		}
	})
	if c.torn = errors.Is(err, dump.ErrTorn); err != nil && !c.torn || len(c.chains) == 0 {
		return c, ignoreTorn(err)
	}
	for _, chain := range others {
		err := conn.EachJump(t, chain, func(j nft.Jump) bool {
			if own(j.To) {
				c.jumps = append(c.jumps, j)
			}
			return true
		})
		if err := ignoreTorn(err); err != nil {
			return c, err
		}
		c.torn = c.torn || err != nil
	}
	return c, nil
}

// ignoreTorn is for who goes on with what was told.
func ignoreTorn(err error) error {
	if errors.Is(err, dump.ErrTorn) {
		return nil
	}
	return err
}

// dropChains empties all before it removes one, for they lead to each other.
func dropChains(conn *nft.Session, t *nftables.Table, names []string) error {
	for _, do := range []func(*nftables.Chain){conn.FlushChain, conn.DelChain} {
		for part := range slices.Chunk(names, perTransaction) {
			for _, name := range part {
				do(&nftables.Chain{Table: t, Name: name})
			}
			if err := conn.Flush(); err != nil {
				return fmt.Errorf("empty and remove chains of table %s: %w", t.Name, err)
			}
		}
	}
	return nil
}
