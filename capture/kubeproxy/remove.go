package kubeproxy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// perTransaction bounds the chains that one transaction empties or removes.
const perTransaction = 1000

// shared are the tables of iptables in which kube-proxy has chains.
var shared = []string{"nat", "filter", "mangle"}

// Remove takes away the tables of kube-proxy, and its chains of iptables. New
// connections no longer meet them from the first transaction of a family on; open ones
// stay translated, which is conntrack's, as long as somebody translates addresses in
// this network. What Rules.Stays is about stays.
func Remove() error {
	conn := nft.Open()
	defer conn.Close()
	var errs []error
	for _, f := range families {
		tables, err := conn.ListTablesOfFamily(f.family)
		if err != nil {
			errs = append(errs, fmt.Errorf("list nftables tables of %s: %w", f.name, err))
			continue
		}
		for _, t := range tables {
			if t.Name == Table {
				conn.DelTable(t)
				errs = append(errs, flush(conn, "remove nftables table "+f.name+" "+Table))
			}
		}
		errs = append(errs, removeChains(conn, tables, f.name))
	}
	return errors.Join(errs...)
}

// removeChains removes those of iptables: what leads there goes in one transaction for
// all tables, and then nobody meets what is left.
func removeChains(conn *nft.Session, tables []*nftables.Table, family string) error {
	all, err := conn.Chains()
	if err != nil {
		return err
	}
	removals := map[*nftables.Table]removal{}
	for _, t := range tables {
		if !slices.Contains(shared, t.Name) {
			continue
		}
		var names []string
		for _, c := range all {
			if c.Table.Family == t.Family && c.Table.Name == t.Name {
				names = append(names, c.Name)
			}
		}
		if !slices.ContainsFunc(names, own) {
			continue
		}
		jumps, err := conn.Jumps(t, "")
		if err != nil {
			return err
		}
		r := removalOf(names, jumps)
		removals[t] = r
		for _, j := range r.entries {
			if err := conn.DelRule(&nftables.Rule{Table: t, Chain: &nftables.Chain{Table: t, Name: j.Chain}, Handle: j.Handle}); err != nil {
				return fmt.Errorf("remove a rule of chain %s: %w", j.Chain, err)
			}
		}
	}
	if len(removals) == 0 {
		return nil
	}
	if err := flush(conn, "take kube-proxy's chains of iptables ("+family+") out of force"); err != nil {
		return err
	}
	for t, r := range removals {
		if err := dropChains(conn, t, r.chains); err != nil {
			return err
		}
	}
	return nil
}

// dropChains empties all before it removes one, for they lead to each other.
func dropChains(conn *nft.Session, t *nftables.Table, names []string) error {
	for _, do := range []func(*nftables.Chain){conn.FlushChain, conn.DelChain} {
		for part := range slices.Chunk(names, perTransaction) {
			for _, name := range part {
				do(&nftables.Chain{Table: t, Name: name})
			}
			if err := flush(conn, "remove kube-proxy's chains from table "+t.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush takes what is gone already for done.
func flush(conn *nft.Session, what string) error {
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
