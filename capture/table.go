package capture

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// netlinkBuffer holds the acknowledgements of a transaction.
const netlinkBuffer = 4 << 20

// perTransaction bounds the elements of one transaction so that it fits the
// send buffer that a process without privileges on the host may have.
const perTransaction = 2000

// table writes plans into nftables.
type table struct {
	conn *nftables.Conn
	nft  *nftables.Table
	sets map[string]*nftables.Set
}

func newTable() (*table, error) {
	conn, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		// Refused without privileges on the host; the default then has to do.
		_ = c.SetReadBuffer(netlinkBuffer)
		_ = c.SetWriteBuffer(netlinkBuffer)
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	t := &table{conn: conn, nft: &nftables.Table{Name: rules.Name, Family: nftables.TableFamilyINet}, sets: map[string]*nftables.Set{}}
	for _, s := range rules.Inet(plan.Config{}).Sets { // the same in every configuration
		t.sets[s.Name] = newSet(t.nft, s)
	}
	return t, nil
}

// install puts the constant rules in place, in one transaction, and keeps the
// elements that a table of the same layout holds already: an agent that
// restarts takes nothing out of force.
func (t *table) install(cfg plan.Config) error {
	keep, err := t.present()
	if err != nil {
		return err
	}
	t.conn.AddTable(t.nft)
	if !keep {
		t.conn.DelTable(t.nft)
		t.conn.AddTable(t.nft)
	}
	// A set that is there already stays as it is.
	want := rules.Inet(cfg)
	for _, s := range want.Sets {
		if err := t.conn.AddSet(t.sets[s.Name], nil); err != nil {
			return fmt.Errorf("add set %s: %w", s.Name, err)
		}
	}
	list := want.Chains
	for i := range list {
		t.conn.AddChain(newChain(t.nft, &list[i]))
	}
	if keep {
		if err := t.clear(list); err != nil {
			return err
		}
	}
	addRules(t.conn, t.nft, list)
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("install nftables rules: %w", err)
	}
	return t.replace(rules.Pods, ranges(rules.Pods, cfg.PodCIDRs))
}

// clear empties every chain of the table and drops those that are no longer
// in use: of another version, or of another choice of flags.
func (t *table) clear(list []rules.Chain) error {
	for i := range list {
		t.conn.FlushChain(newChain(t.nft, &list[i]))
	}
	have, err := t.conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("list nftables chains: %w", err)
	}
	for _, h := range have {
		used := func(c rules.Chain) bool { return c.Name == h.Name }
		if h.Table.Name == rules.Name && !slices.ContainsFunc(list, used) {
			t.conn.FlushChain(h)
			t.conn.DelChain(h)
		}
	}
	return nil
}

// setBridges tells the rules which bridges pods hang on.
func (t *table) setBridges(list []rules.PodBridge) error {
	t.conn.FlushSet(t.sets[rules.Bridges])
	for _, b := range list {
		name := make([]byte, unix.IFNAMSIZ)
		copy(name, b.Name)
		if err := t.conn.SetAddElements(t.sets[rules.Bridges], []nftables.SetElement{{Key: name}}); err != nil {
			return fmt.Errorf("set %s: %w", rules.Bridges, err)
		}
	}
	return t.flush(rules.Bridges)
}

// addRules fills empty chains.
func addRules(conn *nftables.Conn, t *nftables.Table, list []rules.Chain) {
	for i := range list {
		for _, rule := range list[i].Rules {
			conn.AddRule(&nftables.Rule{Table: t, Chain: newChain(t, &list[i]), Exprs: expressions(rule)})
		}
	}
}

// present reports whether a table of this layout is there.
func (t *table) present() (bool, error) {
	tables, err := t.conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	if !slices.ContainsFunc(tables, func(o *nftables.Table) bool { return o.Name == rules.Name }) {
		return false, nil
	}
	sets, err := t.conn.GetSets(t.nft)
	if err != nil {
		return false, fmt.Errorf("list nftables sets: %w", err)
	}
	return slices.ContainsFunc(sets, func(s *nftables.Set) bool { return s.Name == rules.Layout }), nil
}

// sync makes the table hold exactly p, whatever it held before.
func (t *table) sync(p *plan.Plan) error {
	gone, added, err := t.compare(p)
	if err != nil {
		return err
	}
	// What is guarded comes first: nothing may leave while the rest is loaded.
	if err := t.replace(rules.Guard, ranges(rules.Guard, p.Guard)); err != nil {
		return err
	}
	if err := t.write(t.conn.SetDeleteElements, gone); err != nil {
		return err
	}
	return t.write(t.conn.SetAddElements, added)
}

// merge adds what p has and the table does not.
func (t *table) merge(p *plan.Plan) error {
	_, added, err := t.compare(p)
	if err != nil {
		return err
	}
	if err := t.addGuard(p.Guard); err != nil {
		return err
	}
	return t.write(t.conn.SetAddElements, added)
}

func (t *table) compare(p *plan.Plan) (gone, added bySet, err error) {
	want := bySet{}
	want.frontends(rules.Serve, p.Serve)
	want.frontends(rules.Silent, p.Silent)
	want.hairpins(p.Hairpin)
	gone, added = bySet{}, bySet{}
	for _, set := range []rules.SetName{rules.Serve, rules.Silent, rules.Hairpin} {
		for _, f := range rules.Families {
			name := set.For(f)
			have, err := t.conn.GetSetElements(t.sets[name])
			if err != nil {
				return nil, nil, fmt.Errorf("read set %s: %w", name, err)
			}
			gone[name], added[name] = compare(have, want[name])
		}
	}
	return gone, added, nil
}

// addGuard guards ranges beside those that are guarded already.
func (t *table) addGuard(list []netip.Prefix) error {
	for name, elements := range ranges(rules.Guard, list) {
		have, err := t.conn.GetSetElements(t.sets[name])
		if err != nil {
			return fmt.Errorf("read set %s: %w", name, err)
		}
		if len(have) > 0 {
			continue // of the run before: in force until the first sync
		}
		if err := t.conn.SetAddElements(t.sets[name], elements); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return t.flush(string(rules.Guard))
}

// retract takes away what a change removes, and replaces the guard.
func (t *table) retract(c *plan.Change, p *plan.Planner) error {
	if c.Guard {
		if err := t.replace(rules.Guard, ranges(rules.Guard, p.Guard())); err != nil {
			return err
		}
	}
	gone := bySet{}
	gone.frontends(rules.Serve, c.DelServe)
	gone.frontends(rules.Silent, c.DelSilent)
	gone.hairpins(c.DelHairpin)
	return t.write(t.conn.SetDeleteElements, gone)
}

// extend adds what a change adds.
func (t *table) extend(c *plan.Change) error {
	added := bySet{}
	added.frontends(rules.Serve, c.AddServe)
	added.frontends(rules.Silent, c.AddSilent)
	added.hairpins(c.AddHairpin)
	return t.write(t.conn.SetAddElements, added)
}

func (t *table) write(do func(*nftables.Set, []nftables.SetElement) error, elements bySet) error {
	inTransaction := 0
	for _, name := range slices.Sorted(maps.Keys(elements)) {
		for part := range slices.Chunk(elements[name], chunk) {
			if err := do(t.sets[name], part); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
			if inTransaction += len(part); inTransaction >= perTransaction {
				if err := t.flush(name); err != nil {
					return err
				}
				inTransaction = 0
			}
		}
	}
	return t.flush("")
}

func (t *table) flush(name string) error {
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("write set %s: %w", name, err)
	}
	return nil
}

// replace swaps the content of an interval set of both families at once.
func (t *table) replace(set rules.SetName, elements bySet) error {
	for _, f := range rules.Families {
		name := set.For(f)
		t.conn.FlushSet(t.sets[name])
		if len(elements[name]) > 0 {
			if err := t.conn.SetAddElements(t.sets[name], elements[name]); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
		}
	}
	return t.flush(string(set))
}

func (t *table) remove() error {
	t.conn.DelTable(t.nft)
	if err := t.conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove nftables table: %w", err)
	}
	return nil
}

func compare(have, want []nftables.SetElement) (gone, added []nftables.SetElement) {
	wanted := make(map[string]bool, len(want))
	for _, e := range want {
		wanted[string(e.Key)] = true
	}
	held := make(map[string]bool, len(have))
	for _, e := range have {
		held[string(e.Key)] = true
		if !wanted[string(e.Key)] {
			gone = append(gone, nftables.SetElement{Key: e.Key})
		}
	}
	for _, e := range want {
		if !held[string(e.Key)] {
			added = append(added, e)
		}
	}
	return gone, added
}

func ranges(set rules.SetName, list []netip.Prefix) bySet {
	m := bySet{}
	m.ranges(set, list)
	return m
}
