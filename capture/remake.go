package capture

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// beginning is what a table holds that is made anew.
type beginning struct {
	elements bySet
	alone    bool // what was in force before is not added to it
	anew     bool // even where the table that is there would do
}

// install puts the constant rules in place, in one transaction, and keeps the
// elements that a table of the same layout holds already: an agent that
// restarts takes nothing out of force. A new table begins with the elements
// given.
//
// The table is ours, and nobody else has anything to keep in it. Where the
// kernel refuses to write into what somebody made of it, it is made anew, in one transaction too: of all that one may put into a table
// nothing outlives its table.
func (t *table) install(cfg plan.Config, begin beginning) error {
	found, err := t.conn.Table(t.nft.Family)
	if err != nil {
		return err
	}
	if err := owned(found, "inet "+rules.Name); err != nil {
		return err
	}
	ours := found.HasSet(rules.Layout)
	keep := ours && !begin.anew && !t.strange(found)
	var left bySet
	if keep {
		left, err = t.lay(cfg, begin.elements, found, true)
		keep = !t.anew.due(err, time.Now())
	}
	if !keep {
		elements := begin.elements
		if err = nil; ours {
			elements, err = t.carry(begin, found)
		}
		if err == nil {
			left, err = t.lay(cfg, elements, found, false)
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

// owned is an error where a table ends with the socket that made it: until then
// the kernel lets nobody else change or remove it.
func owned(found *nft.Table, name string) error {
	if found == nil || found.Flags&nft.TableOwner == 0 {
		return nil
	}
	who := ""
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", found.Owner)); err == nil {
		who = ", which is " + strings.TrimSpace(string(name))
	}
	return fmt.Errorf("nftables table %s was made by another process that owns it (flags owner; its netlink port is %d, as a rule its process id%s), and the kernel lets nobody else change it: stop that process, and the rules are put in place", name, found.Owner, who)
}

// strange reports whether the table is what our rules cannot be put into as it
// is: it has flags (one that is dormant guards nothing, one that persists takes
// no other flags), a set that is none of ours, or what no table of ours has. A
// set without a name of its own is part of a rule, and goes with it.
func (t *table) strange(found *nft.Table) bool {
	return found.Flags != 0 || found.Others > 0 ||
		slices.ContainsFunc(found.Sets, func(s nft.Set) bool { return t.sets[s.Name] == nil && !s.Anonymous() })
}

// carry adds to elements those that the table holds, of the sets whose elements
// can be in ours: what is in force stays so while the table is made anew. What was
// said of Envoy stays until somebody says other.
func (t *table) carry(begin beginning, found *nft.Table) (bySet, error) {
	all := maps.Clone(begin.elements)
	var names []string
	if !begin.alone {
		names = append(bothOf(rules.Guard), served...)
	}
	if _, said := all[rules.Absent]; !said && t.sets[rules.Absent] != nil {
		names = append(names, rules.Absent)
	}
	have, err := t.those(found, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if slices.Contains(bothOf(rules.Guard), name) { // ranges may lie within others
			guard := plan.Disjoint(slices.Concat(prefixes(all[name]), prefixes(have[name])))
			all[name] = ranges(rules.Guard, guard)[name]
			continue
		}
		_, added := compare(all[name], have[name])
		all[name] = slices.Concat(all[name], added)
	}
	return all, nil
}

// those are the elements of some sets that a table holds which was found, where they can
// be in ours.
func (t *table) those(found *nft.Table, names []string) (bySet, error) {
	if found == nil {
		return nil, nil
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.ContainsFunc(found.Sets, func(s nft.Set) bool { return s.HoldsElementsOf(t.sets[name]) })
	})
	have, _, err := t.read(names...)
	return have, err
}

// lay writes the table in one transaction, and returns the elements that it
// cannot hold: the guard is never among them.
func (t *table) lay(cfg plan.Config, begin bySet, found *nft.Table, keep bool) (left bySet, err error) {
	addTable(t.conn, t.nft, found, keep)
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
		t.clear(list, found.Chains)
	}
	addRules(t.conn, t.nft, list)
	if left, err = t.begin(cfg, begin, keep); err != nil {
		return nil, err
	}
	t.gen = 0 // others may have written since it was asked for
	return left, t.flush(rules.Layout)
}

// addTable adds a table to a transaction, without anything in it unless it is
// to be kept. One that is removed first must be there; one that has flags takes
// no others (EOPNOTSUPP of one that persists) before it is.
func addTable(conn *nft.Session, t *nftables.Table, found *nft.Table, keep bool) {
	if found == nil || found.Flags == 0 {
		conn.AddTable(t)
	}
	if !keep {
		conn.DelTable(t)
		conn.AddTable(t)
	}
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
