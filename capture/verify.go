package capture

import (
	"fmt"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// remember takes what the kernel has now for what is to stay, after it was
// written: the rules are ours where there are as many as were written.
func remember(conn *nft.Session, family nftables.TableFamily, want []rules.Chain) (string, error) {
	text, count, err := conn.Rendition(family)
	if err != nil {
		return "", err
	}
	for i := range want {
		if count[want[i].Name] != len(want[i].Rules) {
			return "", nil // changed already: Repair finds it different
		}
	}
	return text, nil
}

// intact reports whether the rules are those that were written.
func (t *table) intact() (bool, error) {
	if t.text == "" {
		return false, nil
	}
	text, _, err := t.conn.Rendition(t.nft.Family)
	return text == t.text, err
}

// holds reports whether sets have the elements that they should have, and with
// exact no others.
func (t *table) holds(want bySet, sets []string, exact bool) (bool, error) {
	for _, name := range sets {
		have, err := t.conn.GetSetElements(t.sets[name])
		if err != nil {
			return false, fmt.Errorf("read set %s: %w", name, err)
		}
		gone, added := compare(have, want[name])
		if len(added) > 0 || exact && len(gone) > 0 {
			return false, nil
		}
	}
	return true, nil
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
