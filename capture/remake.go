package capture

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// install puts the constant rules in place, in one transaction, and keeps the
// elements that a table of the same layout holds already: an agent that
// restarts takes nothing out of force. A new table begins with the elements
// given, and so does one that somebody put a set of his own into: nobody else
// has anything to keep there.
func (t *table) install(cfg plan.Config, begin bySet) error {
	found, err := t.found()
	if err != nil {
		return err
	}
	keep := slices.ContainsFunc(found, func(s nft.Set) bool { return s.Name == rules.Layout })
	anew := keep && t.strange(found)
	var left bySet
	if !anew {
		left, err = t.lay(cfg, begin, keep)
		anew = keep && ofAnotherShape(err)
	}
	if anew {
		if begin, err = t.carry(begin, found); err == nil {
			left, err = t.lay(cfg, begin, false)
		}
	}
	if err != nil {
		return fmt.Errorf("install nftables rules: %w", err)
	}
	if t.text, err = remember(t.conn, t.nft.Family, rules.Inet(cfg).Chains); err != nil {
		return err
	}
	return t.write(t.conn.SetAddElements, left)
}

// ofAnotherShape reports whether the kernel refused to write into what is there:
// a set or a chain of the same name is another, or somebody else's rule needs
// what is to go. A rule set that nft(8) saved and loaded is such a one, for it
// describes sets of several fields otherwise.
func ofAnotherShape(err error) bool {
	return errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EOPNOTSUPP)
}

// carry adds to elements those that the table holds, of the sets whose elements
// can be in ours: what is in force stays so while the table is made anew.
func (t *table) carry(begin bySet, found []nft.Set) (bySet, error) {
	all := bySet{rules.Bridges: begin[rules.Bridges]}
	for _, name := range append(bothOf(rules.Guard), served...) {
		all[name] = slices.Clone(begin[name])
		if !slices.ContainsFunc(found, func(s nft.Set) bool { return s.HoldsElementsOf(t.sets[name]) }) {
			continue
		}
		list, err := t.conn.GetSetElements(t.sets[name])
		if err != nil {
			return nil, fmt.Errorf("read set %s: %w", name, err)
		}
		_, added := compare(begin[name], list)
		for _, e := range added {
			all[name] = append(all[name], nftables.SetElement{Key: e.Key, IntervalEnd: e.IntervalEnd})
		}
	}
	// Ranges may lie within others.
	for _, name := range bothOf(rules.Guard) {
		guard := plan.Disjoint(append(prefixes(begin[name]), prefixes(all[name])...))
		all[name] = ranges(rules.Guard, guard)[name]
	}
	return all, nil
}

// lay writes the table in one transaction, and returns the elements that it
// cannot hold: the guard is never among them.
func (t *table) lay(cfg plan.Config, begin bySet, keep bool) (left bySet, err error) {
	t.conn.AddTable(t.nft)
	if !keep {
		t.conn.DelTable(t.nft)
		t.conn.AddTable(t.nft)
	}
	// A set that is there already stays as it is.
	want := rules.Inet(cfg)
	for _, s := range want.Sets {
		if err := t.conn.AddSet(t.sets[s.Name], nil); err != nil {
			return nil, fmt.Errorf("add set %s: %w", s.Name, err)
		}
	}
	list := want.Chains
	for i := range list {
		t.conn.AddChain(nft.NewChain(t.nft, &list[i]))
	}
	if keep {
		if err := t.clear(list); err != nil {
			return nil, err
		}
	}
	addRules(t.conn, t.nft, list)
	if left, err = t.begin(cfg, begin, keep); err != nil {
		return nil, err
	}
	t.gen = 0 // others may have written since it was asked for
	return left, t.flush(rules.Layout)
}

// begin adds to the transaction which sources are kept, and the elements of a
// new table: the guard, and the others where it holds all of them.
func (t *table) begin(cfg plan.Config, elements bySet, keep bool) (left bySet, err error) {
	all := ranges(rules.Pods, cfg.PodCIDRs)
	for _, name := range bothOf(rules.Pods) {
		t.conn.FlushSet(t.sets[name])
	}
	if !keep {
		total := 0
		for _, list := range elements {
			total += len(list)
		}
		left = bySet{}
		for name, list := range elements {
			if total <= perTransaction || !slices.Contains(served, name) {
				all[name] = list
			} else {
				left[name] = list
			}
		}
	}
	for name, list := range all {
		for part := range slices.Chunk(list, chunk) {
			if err := t.conn.SetAddElements(t.sets[name], part); err != nil {
				return nil, fmt.Errorf("set %s: %w", name, err)
			}
		}
	}
	return left, nil
}

// strange reports whether the table has a set that is none of ours. One without a
// name of its own is part of a rule, and goes with it.
func (t *table) strange(list []nft.Set) bool {
	return slices.ContainsFunc(list, func(s nft.Set) bool { return t.sets[s.Name] == nil && s.Flags&unix.NFT_SET_ANONYMOUS == 0 })
}
