package capture

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// remember takes what the kernel has now for what is to stay, after it was
// written: the rules are ours where there are as many as were written.
func remember(conn *nft.Session, family nftables.TableFamily, want []rules.Chain) (string, error) {
	found, err := conn.Table(family)
	if errors.Is(err, dump.ErrTorn) {
		return "", nil // Repair writes it again
	}
	if err != nil || found == nil {
		return "", err
	}
	for i := range want {
		if found.Rules[want[i].Name] != len(want[i].Rules) {
			return "", nil // changed already: Repair finds it different
		}
	}
	return found.Text, nil
}

// textOf is what the kernel says of our table of a family; empty where there is none.
func textOf(conn *nft.Session, family nftables.TableFamily) (string, error) {
	found, err := conn.Table(family)
	if err != nil || found == nil {
		return "", err
	}
	return found.Text, nil
}

// intact reports whether the rules are those that were written.
func (t *table) intact() (bool, error) {
	if t.text == "" {
		return false, nil
	}
	text, err := textOf(t.conn, t.nft.Family)
	return text == t.text, err
}

// read returns what sets hold, each key once and plain, and what is strange of
// it: what stands for all has no key, and is not among the elements.
func (t *table) read(sets ...string) (plain bySet, strange map[string][]nft.Element, err error) {
	plain, strange = bySet{}, map[string][]nft.Element{}
	for _, name := range sets {
		list, err := t.conn.Elements(t.sets[name])
		if err != nil {
			return nil, nil, err
		}
		for _, e := range list {
			if e.CatchAll || e.Odd || t.sets[name].HasTimeout && strangeClient(e) {
				strange[name] = append(strange[name], e)
			}
			if !e.CatchAll && len(e.Key) > 0 {
				plain[name] = append(plain[name], nftables.SetElement{Key: e.Key, IntervalEnd: e.IntervalEnd})
			}
		}
	}
	return plain, strange, nil
}

// tidied is read, without what is strange: somebody else put it there, and where
// a set has it neither what a lookup finds nor what can be written is what we
// think. It reports whether there was any.
func (t *table) tidied(sets ...string) (have bySet, tidied bool, err error) {
	have, strange, err := t.read(sets...)
	if err != nil || len(strange) == 0 {
		return have, false, err
	}
	t.gen = 0
	plain := bySet{}
	for name, list := range strange {
		if t.sets[name].HasTimeout { // Clients writes it anew
			t.conn.FlushSet(t.sets[name])
			delete(have, name)
			continue
		}
		for _, e := range list {
			if e.CatchAll {
				if err := t.conn.DeleteCatchAll(t.sets[name]); err != nil {
					return nil, true, refused(err)
				}
				continue
			}
			plain[name] = append(plain[name], nftables.SetElement{Key: e.Key, IntervalEnd: e.IntervalEnd})
		}
	}
	return have, true, t.rewrite(plain)
}

// rewrite removes elements and adds them, each set in one transaction.
func (t *table) rewrite(elements bySet) error {
	for name, list := range elements {
		for part := range slices.Chunk(list, chunk) {
			if err := t.conn.SetDeleteElements(t.sets[name], part); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
		}
		for part := range slices.Chunk(list, chunk) {
			if err := t.conn.SetAddElements(t.sets[name], part); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
		}
	}
	return t.flush("elements")
}

// are reports whether sets hold the elements that they should, and with exact no
// others.
func (m bySet) are(want bySet, sets []string, exact bool) bool {
	for _, name := range sets {
		gone, added := compare(m[name], want[name])
		if len(added) > 0 || exact && len(gone) > 0 {
			return false
		}
	}
	return true
}

func compare(have, want []nftables.SetElement) (gone, added []nftables.SetElement) {
	wanted := make(map[string]bool, len(want))
	for _, e := range want {
		wanted[identity(e)] = true
	}
	held := make(map[string]bool, len(have))
	for _, e := range have {
		held[identity(e)] = true
		if !wanted[identity(e)] {
			gone = append(gone, nftables.SetElement{Key: e.Key})
		}
	}
	for _, e := range want {
		if !held[identity(e)] {
			added = append(added, e)
		}
	}
	return gone, added
}

// identity tells elements apart, and the end of a range from the beginning of
// the next.
func identity(e nftables.SetElement) string {
	if e.IntervalEnd {
		return string(e.Key) + " end"
	}
	return string(e.Key)
}
