package capture

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// picksPerTransaction bounds the chains of one transaction so that its acknowledgements,
// which repeat each rule, fit a socket of the size that nobody had to allow.
const picksPerTransaction = 32

// askedApart is for how many chains and memories it is less to be told of each than of
// the whole table.
const askedApart = 2 * picksPerTransaction

// picksAmong are the picks of chains, by name.
func picksAmong(chains []string) (list []plan.Pick) {
	for _, name := range chains {
		if p, ok := rules.ParsePick(name); ok {
			list = append(list, p)
		}
	}
	return list
}

// addPicks puts chains in force, before what leads to them, and the memories that they write
// into. In one transaction with it a packet that the kernel has led through the rules of
// before since its first chain would be led to a new chain, and find that empty.
func (t *kernelTable) addPicks(need []plan.Pick) (added []string, err error) {
	var lack []plan.Pick
	for _, p := range need {
		if _, there := t.rules[rules.PickName(p)]; !there {
			lack = append(lack, p)
		}
	}
	for part := range slices.Chunk(lack, picksPerTransaction) {
		if err := t.layPicks(part); err != nil {
			return nil, err
		}
		for _, p := range part {
			added = append(added, rules.PickName(p))
			if m, has := p.Memory(); has {
				added = append(added, rules.MemoryName(m))
			}
		}
		if err := t.flush(); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// learn remembers chains and memories that were just written. Where others write too fast to
// be told, nothing is known any more, and Repair lays the rules again.
func (t *kernelTable) learn(names []string) error {
	if len(names) == 0 || t.rules == nil {
		return nil
	}
	apart, err := t.apart(names)
	if errors.Is(err, dump.ErrTorn) {
		t.rules = nil
		return nil
	}
	maps.Copy(t.rules, apart)
	return err
}

// apart is what the kernel says of them.
func (t *kernelTable) apart(names []string) (map[string]string, error) {
	if len(names) <= askedApart {
		return t.conn.ApartOf(t.nft.Family, t.nft.Name, names)
	}
	found, err := t.found()
	if err != nil || found == nil {
		return nil, err
	}
	list := make(map[string]string, len(names))
	for _, name := range names {
		list[name] = found.Apart[name]
	}
	return list, nil
}

// layPicks collects chains as they are to be, and the memories that they write into.
func (t *kernelTable) layPicks(list []plan.Pick) error {
	if err := t.addMemories(list); err != nil {
		return err
	}
	for _, p := range list {
		chain := rules.PickChain(t.cfg, p)
		t.conn.AddChain(nft.NewChain(t.nft, &chain))
		t.conn.FlushChain(nft.NewChain(t.nft, &chain))
		addRules(t.conn, t.nft, []rules.Chain{chain})
	}
	return nil
}

// addMemories collects. Those that are there keep their clients.
func (t *kernelTable) addMemories(list []plan.Pick) error {
	for m := range memoriesOf(list) {
		set := nft.NewSet(t.nft, rules.MemorySet(m))
		if err := t.conn.AddSet(set, nil); err != nil {
			return fmt.Errorf("add set %s: %w", set.Name, err)
		}
	}
	return nil
}

func memoriesOf(list []plan.Pick) map[plan.Memory]bool {
	all := map[plan.Memory]bool{}
	for _, p := range list {
		if m, has := p.Memory(); has {
			all[m] = true
		}
	}
	return all
}

// dropMemories collects the removal of those that are found and that no chain writes into.
func (t *kernelTable) dropMemories(found *nft.Table, picks []plan.Pick) {
	needed := memoriesOf(picks)
	for _, s := range found.Sets {
		if m, ok := rules.ParseMemory(s.Name); ok && !needed[m] {
			t.conn.DelSet(nft.NewSet(t.nft, rules.MemorySet(m)))
		}
	}
}

// dropPicks ends the transaction without chains that nothing leads to any more, and
// without the memories that only those wrote into. While a Service has endpoints its memory stays,
// whatever their number.
func (t *kernelTable) dropPicks(need, drop []plan.Pick) error {
	idle := memoriesOf(drop)
	if t.rules == nil { // what others write into is not known; the next lay knows
		idle = nil
	}
	if len(idle) > 0 {
		for m := range memoriesOf(need) {
			delete(idle, m)
		}
		for _, p := range t.picks() {
			if m, has := p.Memory(); has && idle[m] && !slices.Contains(drop, p) {
				delete(idle, m)
			}
		}
	}
	for len(drop) > picksPerTransaction {
		if err := t.dropPart(drop[:picksPerTransaction], nil); err != nil {
			return err
		}
		drop = drop[picksPerTransaction:]
	}
	memories := slices.Collect(maps.Keys(idle))
	for len(memories) > picksPerTransaction {
		if err := t.dropPart(drop, memories[:picksPerTransaction]); err != nil {
			return err
		}
		drop, memories = nil, memories[picksPerTransaction:]
	}
	return t.dropPart(drop, memories)
}

// dropPart ends the transaction without some.
func (t *kernelTable) dropPart(drop []plan.Pick, idle []plan.Memory) error {
	var gone []string
	for _, p := range drop {
		chain := &nftables.Chain{Table: t.nft, Name: rules.PickName(p)}
		t.conn.FlushChain(chain)
		t.conn.DelChain(chain)
		gone = append(gone, chain.Name)
	}
	for _, m := range idle {
		set := nft.NewSet(t.nft, rules.MemorySet(m))
		t.conn.DelSet(set)
		gone = append(gone, set.Name)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, name := range gone {
		delete(t.rules, name)
	}
	return nil
}
