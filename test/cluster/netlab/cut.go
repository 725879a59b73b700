package netlab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// ErrNone is an error about something that the lab does not have; it names
// what there is.
var ErrNone = errors.New("no such thing in this lab")

// line is what can be cut: a device of a unit's router, in the words of people.
type line struct {
	words  string // "uplink a", "node a-1", "link a b"
	router *NS
	family nftables.TableFamily
	dev    string
}

// cuts are the lines that are cut now.
type cuts struct {
	mu   sync.Mutex
	list []string
}

// Cuts are the lines that are cut now: "uplink UNIT", "node NODE" and "link
// UNIT UNIT", in the order in which they were.
func (l *Lab) Cuts() []string {
	l.cuts.mu.Lock()
	defer l.cuts.mu.Unlock()
	return slices.Clone(l.cuts.list)
}

// set cuts or heals a line. What is cut drops everything that passes, silently,
// as a dead line does.
func (l *Lab) set(w line, cut bool) error {
	l.cuts.mu.Lock()
	defer l.cuts.mu.Unlock()
	at := slices.Index(l.cuts.list, w.words)
	if cut == (at >= 0) {
		return nil
	}
	if err := w.set(cut); err != nil {
		return err
	}
	if cut {
		l.cuts.list = append(l.cuts.list, w.words)
	} else {
		l.cuts.list = slices.Delete(l.cuts.list, at, at+1)
	}
	return nil
}

func (w line) set(cut bool) error {
	conn, err := w.router.NFT()
	if err != nil {
		return err
	}
	t := conn.AddTable(&nftables.Table{Name: "cut-" + w.dev, Family: w.family})
	if !cut {
		conn.DelTable(t)
	} else {
		for _, h := range []struct {
			name string
			hook *nftables.ChainHook
			key  expr.MetaKey
		}{{"in", nftables.ChainHookPrerouting, expr.MetaKeyIIFNAME}, {"out", nftables.ChainHookPostrouting, expr.MetaKeyOIFNAME}} {
			c := conn.AddChain(&nftables.Chain{Name: h.name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: h.hook, Priority: nftables.ChainPriorityRef(-310)})
			conn.AddRule(&nftables.Rule{Table: t, Chain: c, Exprs: []expr.Any{
				&expr.Meta{Key: h.key, Register: 1},
				&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: ifname(w.dev)},
				&expr.Verdict{Kind: expr.VerdictDrop},
			}})
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("cut or heal %s: %w", w.words, err)
	}
	return nil
}

// SetUplink cuts or heals what leads from a unit to the cloud and to units that
// it has no link to.
func (l *Lab) SetUplink(unit string, cut bool) error {
	u, err := l.unit(unit)
	if err != nil {
		return err
	}
	return l.set(line{"uplink " + unit, u.Router, nftables.TableFamilyINet, "up0"}, cut)
}

// SetNode cuts or heals what leads from a node to anything else.
func (l *Lab) SetNode(node string, cut bool) error {
	n := l.Node(node)
	if n == nil {
		var names []string
		for _, n := range l.Nodes() {
			names = append(names, n.Name)
		}
		return fmt.Errorf("%w: node %q; there are %s", ErrNone, node, strings.Join(names, ", "))
	}
	return l.set(line{"node " + node, n.Unit.Router, nftables.TableFamilyBridge, "p-" + node}, cut)
}

// SetLink cuts or heals the link of two units, whichever is named first.
func (l *Lab) SetLink(a, b string, cut bool) error {
	x, errX := l.unit(a)
	y, errY := l.unit(b)
	if err := errors.Join(errX, errY); err != nil {
		return err
	}
	if x.index > y.index {
		x, y = y, x
	}
	words := x.Name + " " + y.Name
	if !slices.Contains(l.links, words) {
		if len(l.links) == 0 {
			return fmt.Errorf("%w: a link of %s and %s; there are none", ErrNone, a, b)
		}
		return fmt.Errorf("%w: a link of %s and %s; there are those of %s", ErrNone, a, b, strings.Join(l.links, ", "))
	}
	return l.set(line{"link " + words, x.Router, nftables.TableFamilyINet, "x-" + y.Name}, cut)
}

// unit is Unit that says what there is.
func (l *Lab) unit(name string) (*Unit, error) {
	if u := l.Unit(name); u != nil {
		return u, nil
	}
	var names []string
	for _, u := range l.Units {
		names = append(names, u.Name)
	}
	return nil, fmt.Errorf("%w: unit %q; there are %s", ErrNone, name, strings.Join(names, ", "))
}

// CutUplink parts a unit from the cloud and from units it has no link to.
func (u *Unit) CutUplink() error { return u.lab.SetUplink(u.Name, true) }

// HealUplink undoes CutUplink.
func (u *Unit) HealUplink() error { return u.lab.SetUplink(u.Name, false) }

// Cut parts a node from everything, silently.
func (n *Node) Cut() error { return n.Unit.lab.SetNode(n.Name, true) }

// Heal undoes Cut.
func (n *Node) Heal() error { return n.Unit.lab.SetNode(n.Name, false) }
