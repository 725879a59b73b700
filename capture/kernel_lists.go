package capture

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// kernelChains are what elements lead to, with the sets that it asks: chains that pick, and
// those of lists of ranges.
type kernelChains struct {
	picks []plan.Pick
	lists []plan.Ranges
}

func (c kernelChains) len() int { return len(c.picks) + len(c.lists) }

// unused are the chains that are there and that nothing needs.
func (t *kernelTable) unused(need kernelChains) (drop kernelChains) {
	picks, lists := map[plan.Pick]bool{}, map[plan.List]bool{}
	for _, p := range need.picks {
		picks[p] = true
	}
	for _, r := range need.lists {
		lists[r.List] = true
	}
	drop.picks = slices.DeleteFunc(t.picks(), func(p plan.Pick) bool { return picks[p] })
	for _, l := range t.lists() {
		if !lists[l] {
			drop.lists = append(drop.lists, plan.Ranges{List: l})
		}
	}
	return drop
}

// picks are the chains that are there.
func (t *kernelTable) picks() []plan.Pick { return picksAmong(slices.Collect(maps.Keys(t.rules))) }

// listsAmong are the lists of chains, by name.
func listsAmong(chains []string) (all []plan.List) {
	for _, name := range chains {
		if l, ok := rules.ParseList(name); ok {
			all = append(all, l)
		}
	}
	return all
}

// lists are those that are there.
func (t *kernelTable) lists() []plan.List { return listsAmong(slices.Collect(maps.Keys(t.rules))) }

// has reports whether the chain of a list is there.
func (t *kernelTable) has(l plan.List) bool { return t.rules[rules.ListName(l)] != "" }

// addLists puts lists in force, before what leads to them. What is in one is in force at
// once with its chain, and never a part of it.
func (t *kernelTable) addLists(need []plan.Ranges) (added []string, err error) {
	elements, chains := 0, 0
	for _, r := range need {
		if t.has(r.List) {
			continue
		}
		if elements+2*len(r.Of) > perTransaction && chains > 0 || chains == picksPerTransaction {
			if err := t.flush(); err != nil {
				return nil, err
			}
			elements, chains = 0, 0
		}
		if err := t.layList(r.List); err != nil {
			return nil, err
		}
		if err := t.fill(r); err != nil {
			return nil, err
		}
		added = append(added, rules.ListName(r.List), rules.RangesName(r.List))
		elements, chains = elements+2*len(r.Of), chains+1
	}
	if chains == 0 {
		return nil, nil
	}
	return added, t.flush()
}

// layList collects the chain of a list as it is to be, and its set, whatever that has.
func (t *kernelTable) layList(l plan.List) error {
	set := nft.NewSet(t.nft, rules.ListSet(l))
	if err := t.conn.AddSet(set, nil); err != nil {
		return fmt.Errorf("add set %s: %w", set.Name, err)
	}
	chain := rules.ListChain(l)
	t.conn.AddChain(nft.NewChain(t.nft, &chain))
	t.conn.FlushChain(nft.NewChain(t.nft, &chain))
	addRules(t.conn, t.nft, []rules.Chain{chain})
	return nil
}

// fill collects what is in a list, and nothing else.
func (t *kernelTable) fill(r plan.Ranges) error {
	set := nft.NewSet(t.nft, rules.ListSet(r.List))
	t.conn.FlushSet(set)
	for part := range slices.Chunk(listElements(r), chunk) {
		if err := t.conn.SetAddElements(set, part); err != nil {
			return fmt.Errorf("set %s: %w", set.Name, err)
		}
	}
	return nil
}

func listElements(r plan.Ranges) (all []nftables.SetElement) {
	for _, p := range r.Of {
		all = append(all, rangeElements(p)...)
	}
	return all
}

// refill mends lists that are there and have other ranges, and reports whether any had.
func (t *kernelTable) refill(need []plan.Ranges) (refilled bool, err error) {
	for _, r := range need {
		if !t.has(r.List) {
			continue
		}
		held, err := nft.ReadMap(t.nft.Name, rules.RangesName(r.List))
		if err != nil {
			return false, fmt.Errorf("read set %s: %w", rules.RangesName(r.List), err)
		}
		if gone, added := compare(held, listElements(r)); len(gone)+len(added) == 0 {
			continue
		}
		refilled = true
		if err := t.fill(r); err != nil {
			return refilled, err
		}
		if err := t.flush(); err != nil {
			return refilled, err
		}
	}
	return refilled, nil
}

// chainsThere are the chains that elements lead to, as the kernel has them: what was laid is
// not known where the rules of a run before are in force still.
func (t *kernelTable) chainsThere() (there kernelChains, err error) {
	found, err := t.found()
	if err != nil || found == nil {
		return there, err
	}
	there.picks = picksAmong(found.Chains)
	for _, l := range listsAmong(found.Chains) {
		held, err := nft.ReadMap(t.nft.Name, rules.RangesName(l))
		if err != nil {
			return there, fmt.Errorf("read set %s: %w", rules.RangesName(l), err)
		}
		there.lists = append(there.lists, plan.Ranges{List: l, Of: prefixes(held)})
	}
	return there, nil
}

// dropLists removes lists that nothing leads to any more, since the last transaction. A packet
// that was led to one before then must be through: it would find an empty chain, which lets
// everybody through.
func (t *kernelTable) dropLists(drop []plan.Ranges) error {
	if len(drop) > 0 {
		membarrier()
	}
	for part := range slices.Chunk(drop, picksPerTransaction) {
		for _, r := range part {
			chain := &nftables.Chain{Table: t.nft, Name: rules.ListName(r.List)}
			t.conn.FlushChain(chain)
			t.conn.DelChain(chain)
			t.conn.DelSet(nft.NewSet(t.nft, rules.ListSet(r.List)))
		}
		if err := t.flush(); err != nil {
			return err
		}
		for _, r := range part {
			delete(t.rules, rules.ListName(r.List))
			delete(t.rules, rules.RangesName(r.List))
		}
	}
	return nil
}

// relayLists collects lists that are found as they are to be, with the ranges that they
// have, and the removal of ranges that no chain asks.
func (t *kernelTable) relayLists(found *nft.Table) error {
	lists := listsAmong(found.Chains)
	for i, l := range lists {
		if i > 0 && i%picksPerTransaction == 0 {
			if err := t.flush(); err != nil {
				return err
			}
		}
		if err := t.layList(l); err != nil {
			return err
		}
	}
	for _, s := range found.Sets {
		if l, ok := rules.ParseRanges(s.Name); ok && !slices.Contains(lists, l) {
			t.conn.DelSet(nft.NewSet(t.nft, rules.ListSet(l)))
		}
	}
	return t.flush()
}
