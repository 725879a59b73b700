package capture

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// kernelTable writes the kernel path into nftables.
type kernelTable struct {
	known
	conn  *nft.Session
	nft   *nftables.Table
	sets  map[string]*nftables.Set
	cfg   plan.Config
	rules map[string]string // what the kernel said of each chain, memory and list, and of the rest as "", when it was written
	anew  remakes
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
// so that the kernel refuses our rules is made anew: then it says that nothing was kept.
func (t *kernelTable) install(anew bool) (kept bool, err error) {
	t.conn.Keep()
	t.follow(t.conn, ofKernelTable, nil) // the capture's table says why not
	found, err := t.found()
	if err != nil {
		return false, err
	}
	if err := owned(found, "inet "+rules.KernelName); err != nil {
		return false, err
	}
	kept = !anew && found.HasSet(rules.KernelLayout) && !t.strange(found)
	if kept {
		err = t.lay(found, true)
		kept = !t.anew.due(err, time.Now())
	}
	if !kept {
		kept, err = false, t.lay(found, false)
	}
	if err != nil {
		return false, fmt.Errorf("install the kernel path's rules: %w", err)
	}
	return kept, t.remember()
}

// found is what is there; nil for nothing.
func (t *kernelTable) found() (*nft.Table, error) { return t.conn.TableOf(t.nft.Family, t.nft.Name) }

// lay writes the table, and makes it anew unless what is there is to be kept.
func (t *kernelTable) lay(found *nft.Table, keep bool) error {
	addTable(t.conn, t.nft, found, keep)
	var has []string
	if keep {
		has = found.Chains
	}
	want := rules.Kernel(t.cfg)
	for _, s := range want.Sets {
		if err := t.conn.AddSet(t.sets[s.Name], nil); err != nil {
			return fmt.Errorf("add set %s: %w", s.Name, err)
		}
	}
	picks := picksAmong(has)
	first := picks[:min(len(picks), picksPerTransaction)]
	if err := t.addMemories(first); err != nil {
		return err
	}
	chains := want.Chains
	for _, p := range first {
		chains = append(chains, rules.PickChain(t.cfg, p))
	}
	for i := range chains {
		c := nft.NewChain(t.nft, &chains[i])
		t.conn.AddChain(c)
		t.conn.FlushChain(c)
	}
	for _, name := range has {
		_, pick := rules.ParsePick(name)
		_, list := rules.ParseList(name)
		if !pick && !list && !slices.ContainsFunc(chains, func(c rules.Chain) bool { return c.Name == name }) {
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
	if keep {
		t.dropMemories(found, picks)
	}
	for part := range slices.Chunk(picks[len(first):], picksPerTransaction) {
		if err := t.flush(); err != nil {
			return err
		}
		if err := t.layPicks(part); err != nil {
			return err
		}
	}
	if err := t.flush(); err != nil || !keep {
		return err
	}
	return t.relayLists(found)
}

// strange reports whether the table is what our rules cannot be put into as it is.
func (t *kernelTable) strange(found *nft.Table) bool {
	return found.Flags != 0 || found.Others > 0 ||
		slices.ContainsFunc(found.Sets, func(s nft.Set) bool {
			return t.sets[s.Name] == nil && !rules.ParseApart(s.Name) && !s.Anonymous()
		})
}

// remember takes what the kernel has for what is to stay, after all of it was
// written: each chain has as many rules as were written.
func (t *kernelTable) remember() error {
	found, err := t.found()
	if errors.Is(err, dump.ErrTorn) {
		err = nil // Repair writes it again
	}
	if t.rules = nil; err != nil || found == nil {
		return err
	}
	for _, c := range rules.Kernel(t.cfg).Chains {
		if found.Rules[c.Name] != len(c.Rules) {
			return nil // changed already: Repair finds it different
		}
	}
	t.rules = found.Apart
	return nil
}

// intact reports whether sets, rules and ranges of pods are those that were
// written.
func (t *kernelTable) intact() (bool, error) {
	found, err := t.found()
	if err != nil || found == nil || t.rules == nil || !maps.Equal(found.Apart, t.rules) {
		return false, err
	}
	pods := ranges(rules.Pods, t.cfg.PodCIDRs)
	for _, name := range bothOf(rules.Pods) {
		held, err := nft.ReadMap(t.nft.Name, name)
		if err != nil {
			return false, fmt.Errorf("read set %s: %w", name, err)
		}
		if gone, added := compare(held, pods[name]); len(gone)+len(added) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// write adds chains, takes steps, and drops chains.
func (t *kernelTable) write(list iter.Seq[kernelStep], need, drop kernelChains) error {
	chains, err := t.addPicks(need.picks)
	if err != nil {
		return err
	}
	lists, err := t.addLists(need.lists)
	if err != nil {
		return err
	}
	if err := t.take(list); err != nil {
		return err
	}
	if err := t.dropPicks(need.picks, drop.picks); err != nil {
		return err
	}
	if err := t.dropLists(drop.lists); err != nil {
		return err
	}
	return t.learn(append(chains, lists...))
}

// take carries steps out, as many in one message as it holds, and in one transaction as perTransaction
// says. The last transaction is left open: what follows is part of it.
func (t *kernelTable) take(list iter.Seq[kernelStep]) error {
	batch := kernelBatch{out: make([]nftables.SetElement, 0, chunk), in: make([]nftables.SetElement, 0, chunk)}
	written := 0
	for s := range list {
		if batch.steps == chunk || batch.steps > 0 && batch.set != s.set {
			n, err := batch.put(t)
			if err != nil {
				return err
			}
			if written += n; written >= perTransaction {
				if err := t.flush(); err != nil {
					return err
				}
				written = 0
			}
		}
		batch.add(s)
	}
	_, err := batch.put(t)
	return err
}

// kernelBatch is what goes into one message, of one set.
type kernelBatch struct {
	set     string
	out, in []nftables.SetElement
	steps   int
}

func (b *kernelBatch) add(s kernelStep) {
	b.set = s.set
	b.steps++
	if s.gone {
		b.out = append(b.out, nftables.SetElement{Key: []byte(s.key)})
	}
	if s.come {
		b.in = append(b.in, elementOf(s.set, s.key, s.value))
	}
}

// put adds it to the transaction, and empties it.
func (b *kernelBatch) put(t *kernelTable) (n int, err error) {
	set := t.sets[b.set]
	if len(b.out) > 0 {
		err = t.conn.SetDeleteElements(set, b.out)
	}
	if len(b.in) > 0 && err == nil {
		err = t.conn.SetAddElements(set, b.in)
	}
	if err != nil {
		return 0, fmt.Errorf("set %s: %w", set.Name, err)
	}
	n = len(b.out) + len(b.in)
	b.out, b.in, b.steps = b.out[:0], b.in[:0], 0
	return n, nil
}

func (t *kernelTable) flush() error {
	return t.known.flush(t.conn, t.sets[rules.KernelLayout], "the kernel path")
}

// close lets go of the sockets, and forgets what was known.
func (t *kernelTable) close() {
	t.others.Close()
	t.others, t.rules, t.gen = nil, nil, 0
	t.conn.Close()
}

// underWay is for how long a packet is on its way through the rules, where a core is taken
// from the kernel meanwhile.
const underWay = 50 * time.Millisecond

// membarrier waits until none is under way any more: packets go through the rules as readers
// of RCU, all of which MEMBARRIER_CMD_GLOBAL has end. With one core, or cores without ticks
// (nohz_full), it does not, and there is nothing better than time.
func membarrier() {
	const global = 1 // linux/membarrier.h
	if _, _, refused := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); refused != 0 || runtime.NumCPU() == 1 {
		time.Sleep(underWay)
	}
}

// unhookKernel has no new packet meet the kernel path, which those that are under way look
// their endpoints up in, and the sources that others see. In a table that goes as a whole
// they would find nothing, and be refused.
func unhookKernel(conn *nft.Session) error {
	t := &nftables.Table{Name: rules.KernelName, Family: nftables.TableFamilyINet}
	hooked := false
	for _, name := range []string{rules.KernelIn, rules.KernelOut} {
		there, err := conn.HasChain(t, name)
		if err != nil {
			return err
		}
		if there {
			chain := &nftables.Chain{Table: t, Name: name}
			conn.FlushChain(chain)
			conn.DelChain(chain)
			hooked = true
		}
	}
	if !hooked {
		return nil
	}
	if err := conn.Flush(); err == nil { // else removeKernel says what is in the way
		membarrier()
	}
	return nil
}

// removeKernel removes the table of the kernel path, and reports whether there
// was one.
func removeKernel(conn *nft.Session) (removed bool, err error) {
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	if !slices.ContainsFunc(tables, func(o *nftables.Table) bool { return o.Name == rules.KernelName }) {
		return false, nil
	}
	conn.DelTable(&nftables.Table{Name: rules.KernelName, Family: nftables.TableFamilyINet})
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		found, _ := conn.TableOf(nftables.TableFamilyINet, rules.KernelName)
		return false, errors.Join(fmt.Errorf("remove the kernel path's table, which serves though it is off: %w", err), owned(found, "inet "+rules.KernelName))
	}
	return true, nil
}
