package capture

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// perTransaction bounds the elements of one transaction so that it fits the
// send buffer that a process without privileges on the host may have.
const perTransaction = 2000

// table writes plans into nftables.
type table struct {
	known
	conn *nft.Session
	nft  *nftables.Table
	sets map[string]*nftables.Set
	text string // what the kernel said of the rules when they were written
	anew remakes
}

func newTable(cfg plan.Config) *table {
	t := &table{conn: nft.New(), nft: &nftables.Table{Name: rules.Name, Family: nftables.TableFamilyINet}}
	t.have(cfg)
	return t
}

// have makes the table have the sets of a configuration.
func (t *table) have(cfg plan.Config) {
	t.sets = map[string]*nftables.Set{}
	for _, s := range rules.Inet(cfg).Sets {
		t.sets[s.Name] = nft.NewSet(t.nft, s)
	}
}

// clear empties every chain of the table and drops those that are no longer
// in use: of another version, or of another choice of flags.
func (t *table) clear(list []rules.Chain, have []string) {
	for i := range list {
		t.conn.FlushChain(nft.NewChain(t.nft, &list[i]))
	}
	for _, name := range have {
		if !slices.ContainsFunc(list, func(c rules.Chain) bool { return c.Name == name }) {
			chain := &nftables.Chain{Table: t.nft, Name: name}
			t.conn.FlushChain(chain)
			t.conn.DelChain(chain)
		}
	}
}

// setBridges tells the rules which bridges pods hang on.
func (t *table) setBridges(list []rules.PodBridge) error {
	want := bySet{}
	want.bridges(list)
	have, _, err := t.tidied(rules.Bridges)
	if err != nil || have.are(want, []string{rules.Bridges}, true) {
		return err
	}
	t.conn.FlushSet(t.sets[rules.Bridges])
	if len(list) > 0 {
		if err := t.conn.SetAddElements(t.sets[rules.Bridges], want[rules.Bridges]); err != nil {
			return fmt.Errorf("set %s: %w", rules.Bridges, err)
		}
	}
	return t.flush(rules.Bridges)
}

// setAbsent tells the rules of which protocols Envoy gets no new connections.
func (t *table) setAbsent(list []nftables.SetElement) (changed bool, err error) {
	have, _, err := t.tidied(rules.Absent)
	if err != nil || have.are(bySet{rules.Absent: list}, []string{rules.Absent}, true) {
		return false, err
	}
	t.conn.FlushSet(t.sets[rules.Absent])
	if len(list) > 0 {
		if err := t.conn.SetAddElements(t.sets[rules.Absent], list); err != nil {
			return false, fmt.Errorf("set %s: %w", rules.Absent, err)
		}
	}
	return true, t.flush(rules.Absent)
}

// addRules fills empty chains.
func addRules(conn *nft.Session, t *nftables.Table, list []rules.Chain) {
	for i := range list {
		for _, rule := range list[i].Rules {
			conn.AddRule(&nftables.Rule{Table: t, Chain: nft.NewChain(t, &list[i]), Exprs: nft.Expressions(rule)})
		}
	}
}

// exists reports whether a table of this layout is there.
func (t *table) exists() (bool, error) {
	t.conn.Keep()
	found, err := t.conn.Table(t.nft.Family)
	return found.HasSet(rules.Layout), err
}

// sync makes the table hold exactly p, whatever it held before; gone: what it held beside.
func (t *table) sync(p *plan.Plan) (gone bySet, err error) {
	gone, added, err := t.compare(wanted(p))
	if err != nil {
		return nil, err
	}
	// What is guarded comes first: nothing may leave while the rest is loaded.
	guard := ranges(rules.Guard, p.Guard)
	have, _, err := t.tidied(bothOf(rules.Guard)...)
	if err == nil && !have.are(guard, bothOf(rules.Guard), true) {
		err = t.replace(rules.Guard, guard)
	}
	if err != nil {
		return gone, err
	}
	if err := t.write(t.conn.SetDeleteElements, gone); err != nil {
		return gone, err
	}
	return gone, t.write(t.conn.SetAddElements, added)
}

// merge adds what is wanted and guarded, and the table does not have.
func (t *table) merge(want bySet, guard []netip.Prefix) error {
	_, added, err := t.compare(want)
	if err != nil {
		return err
	}
	if err := t.addGuard(guard); err != nil {
		return err
	}
	return t.write(t.conn.SetAddElements, added)
}

func (t *table) compare(want bySet) (gone, added bySet, err error) {
	have, _, err := t.tidied(served...)
	if err != nil {
		return nil, nil, err
	}
	gone, added = bySet{}, bySet{}
	for _, name := range served {
		gone[name], added[name] = compare(have[name], want[name])
	}
	return gone, added, nil
}

// addGuard guards ranges beside those that are guarded already, which stay in
// force until the first sync.
func (t *table) addGuard(list []netip.Prefix) error {
	elements, _, err := t.tidied(bothOf(rules.Guard)...)
	if err != nil {
		return err
	}
	have := plan.Disjoint(elements.prefixes(rules.Guard))
	want := plan.Disjoint(slices.Concat(have, list))
	if slices.Equal(want, have) {
		return nil
	}
	return t.replace(rules.Guard, ranges(rules.Guard, want))
}

// guardBeside is addGuard for a table that a run before left, and an error where
// somebody made of it what may guard nothing.
func (t *table) guardBeside(list []netip.Prefix) error {
	found, err := t.conn.Table(t.nft.Family)
	if err == nil && (found == nil || t.strange(found)) {
		err = errors.New("the table is not as a run before left it")
	}
	if err == nil {
		err = t.addGuard(list)
	}
	return err
}

// retract takes away what a change removes, but for the endpoints that may dial themselves, and
// replaces the guard.
func (t *table) retract(c *plan.Change, p *plan.Planner) error {
	if c.Guard {
		if err := t.replace(rules.Guard, ranges(rules.Guard, p.Guard())); err != nil {
			return err
		}
	}
	gone := bySet{}
	gone.frontends(rules.Serve, c.DelServe)
	gone.frontends(rules.Silent, c.DelSilent)
	return t.write(t.conn.SetDeleteElements, gone)
}

// extend adds what a change adds, and takes the endpoints away that may not dial themselves any
// more: until Envoy was told it leads a pod to itself, whose answer would go past it.
func (t *table) extend(c *plan.Change) error {
	added := bySet{}
	added.frontends(rules.Serve, c.AddServe)
	added.frontends(rules.Silent, c.AddSilent)
	added.hairpins(c.AddHairpin)
	if err := t.write(t.conn.SetAddElements, added); err != nil {
		return err
	}
	gone := bySet{}
	gone.hairpins(c.DelHairpin)
	return t.write(t.conn.SetDeleteElements, gone)
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
	if inTransaction == 0 {
		return nil
	}
	return t.flush("elements")
}

func (t *table) flush(what string) error {
	return t.known.flush(t.conn, t.sets[rules.Layout], what)
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
	t.gen, t.text = 0, ""
	t.others.Close()
	t.others = nil
	t.conn.DelTable(t.nft)
	err := t.conn.Flush()
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	found, _ := t.conn.Table(t.nft.Family)
	return errors.Join(fmt.Errorf("remove nftables table: %w", err), owned(found, "inet "+rules.Name))
}

func ranges(set rules.SetName, list []netip.Prefix) bySet {
	m := bySet{}
	m.ranges(set, list)
	return m
}
