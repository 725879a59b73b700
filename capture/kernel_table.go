package capture

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// kernelTable writes the kernel path into nftables.
type kernelTable struct {
	conn  *nft.Session
	nft   *nftables.Table
	sets  map[string]*nftables.Set
	cfg   plan.Config
	rules map[string]string // what the kernel said of each chain, and of the rest as "", when it was written
	gen   uint32            // the generation up to which all is as it was written; 0 for unknown
}

func newKernelTable(cfg plan.Config) *kernelTable {
	t := &kernelTable{conn: nft.New(), nft: &nftables.Table{Name: rules.KernelName, Family: nftables.TableFamilyINet}, sets: map[string]*nftables.Set{}, cfg: cfg}
	for _, s := range rules.Kernel(cfg).Sets {
		t.sets[s.Name] = nft.NewSet(t.nft, s)
	}
	return t
}

// install puts the constant rules in place, in one transaction. Elements, and
// the chains that they lead to, stay where they are of this layout: an agent
// that restarts takes nothing out of force. A table that somebody else changed
// so that it takes no rules is made anew: then it says that nothing was kept.
func (t *kernelTable) install() (kept bool, err error) {
	t.conn.Keep()
	has, err := t.conn.Describe(t.nft)
	if err != nil {
		return false, err
	}
	kept = strings.Contains(has[""], "set "+rules.KernelLayout+" ") && !t.strange(has[""])
	if kept {
		err = t.lay(has)
	}
	if !kept || err != nil {
		kept, err = false, t.lay(nil)
	}
	if err != nil {
		return false, fmt.Errorf("install the kernel path's rules: %w", err)
	}
	return kept, t.remember()
}

// lay writes the table, and makes it anew where nothing is known to be there.
func (t *kernelTable) lay(has map[string]string) error {
	t.conn.AddTable(t.nft)
	if has == nil {
		t.conn.DelTable(t.nft)
		t.conn.AddTable(t.nft)
	}
	want := rules.Kernel(t.cfg)
	for _, s := range want.Sets {
		if err := t.conn.AddSet(t.sets[s.Name], nil); err != nil {
			return fmt.Errorf("add set %s: %w", s.Name, err)
		}
	}
	chains := slices.Clone(want.Chains)
	for name := range has {
		if p, ok := rules.ParsePick(name); ok {
			chains = append(chains, rules.PickChain(t.cfg, p))
		}
	}
	for i := range chains {
		c := nft.NewChain(t.nft, &chains[i])
		t.conn.AddChain(c)
		t.conn.FlushChain(c)
	}
	for name := range has {
		if name != "" && !slices.ContainsFunc(chains, func(c rules.Chain) bool { return c.Name == name }) {
			foreign := &nftables.Chain{Table: t.nft, Name: name}
			t.conn.FlushChain(foreign)
			t.conn.DelChain(foreign)
		}
	}
	addRules(t.conn, t.nft, chains)
	pods := ranges(rules.Pods, t.cfg.PodCIDRs)
	for _, name := range bothOf(rules.Pods) {
		t.conn.FlushSet(t.sets[name])
		if err := t.conn.SetAddElements(t.sets[name], pods[name]); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return t.flush()
}

// strange reports whether the table has a set that is none of ours.
func (t *kernelTable) strange(outline string) bool {
	for line := range strings.Lines(outline) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "set" && t.sets[fields[1]] == nil {
			return true
		}
	}
	return false
}

// remember takes what the kernel has for what is to stay, after all of it was
// written: each chain has as many rules as were written.
func (t *kernelTable) remember() error {
	has, err := t.conn.Describe(t.nft)
	if err != nil {
		return err
	}
	t.rules = has
	for _, c := range rules.Kernel(t.cfg).Chains {
		if strings.Count(has[c.Name], "\n") != 1+len(c.Rules) {
			t.rules = nil // changed already: Repair finds it different
		}
	}
	return nil
}

// intact reports whether sets, rules and ranges of pods are those that were
// written.
func (t *kernelTable) intact() (bool, error) {
	has, err := t.conn.Describe(t.nft)
	if err != nil || t.rules == nil || len(has) != len(t.rules) {
		return false, err
	}
	for name, text := range t.rules {
		if has[name] != text {
			return false, nil
		}
	}
	pods := ranges(rules.Pods, t.cfg.PodCIDRs)
	for _, name := range bothOf(rules.Pods) {
		held, err := t.conn.GetSetElements(t.sets[name])
		if err != nil {
			return false, fmt.Errorf("read set %s: %w", name, err)
		}
		if gone, added := compare(held, pods[name]); len(gone)+len(added) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// addPicks puts chains in place, with what they are needed for or before.
func (t *kernelTable) addPicks(list []plan.Pick) (added []string) {
	for _, p := range list {
		chain := rules.PickChain(t.cfg, p)
		if _, there := t.rules[chain.Name]; there {
			continue
		}
		t.conn.AddChain(nft.NewChain(t.nft, &chain))
		t.conn.FlushChain(nft.NewChain(t.nft, &chain))
		addRules(t.conn, t.nft, []rules.Chain{chain})
		added = append(added, chain.Name)
	}
	return added
}

// learn remembers chains that were just written.
func (t *kernelTable) learn(names []string) error {
	if len(names) == 0 || t.rules == nil {
		return nil
	}
	has, err := t.conn.Describe(t.nft)
	if err != nil {
		return err
	}
	for _, name := range names {
		t.rules[name] = has[name]
	}
	return nil
}

// write adds chains, makes of some elements others, and drops chains.
func (t *kernelTable) write(gone, added kernelElements, need, drop []plan.Pick) error {
	chains := t.addPicks(need)
	n := 0
	list := steps(gone, added)
	for len(list) > 0 {
		part := list[:min(len(list), chunk)]
		for i := range part {
			if part[i].set != part[0].set {
				part = part[:i]
				break
			}
		}
		list = list[len(part):]
		var out, in []nftables.SetElement
		for _, s := range part {
			out, in = append(out, s.gone...), append(in, s.come...)
		}
		set := t.sets[part[0].set]
		if len(out) > 0 {
			if err := t.conn.SetDeleteElements(set, out); err != nil {
				return fmt.Errorf("set %s: %w", set.Name, err)
			}
		}
		if len(in) > 0 {
			if err := t.conn.SetAddElements(set, in); err != nil {
				return fmt.Errorf("set %s: %w", set.Name, err)
			}
		}
		if n += len(out) + len(in); n >= perTransaction && len(list) > 0 {
			if err := t.flush(); err != nil {
				return err
			}
			n = 0
		}
	}
	for _, p := range drop {
		chain := &nftables.Chain{Table: t.nft, Name: rules.PickName(p)}
		t.conn.FlushChain(chain)
		t.conn.DelChain(chain)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, p := range drop {
		delete(t.rules, rules.PickName(p))
	}
	return t.learn(chains)
}

// flush ends a transaction, and makes it one generation for sure.
func (t *kernelTable) flush() error {
	t.gen = 0
	stamp := t.sets[rules.KernelLayout]
	t.conn.FlushSet(stamp)
	if err := t.conn.SetAddElements(stamp, []nftables.SetElement{{Key: []byte{0, 1}}}); err != nil {
		return fmt.Errorf("set %s: %w", stamp.Name, err)
	}
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("write the kernel path: %w", err)
	}
	return nil
}

// removeKernel removes the table of the kernel path, where there is one.
func removeKernel(conn *nft.Session) error {
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("list nftables tables: %w", err)
	}
	if !slices.ContainsFunc(tables, func(o *nftables.Table) bool { return o.Name == rules.KernelName }) {
		return nil
	}
	conn.DelTable(&nftables.Table{Name: rules.KernelName, Family: nftables.TableFamilyINet})
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the kernel path's table: %w", err)
	}
	return nil
}
