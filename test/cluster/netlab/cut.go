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
	words  string // "uplink a", "uplink of a-1", "peers of a-1", "node a-1", "link a b"
	router *NS
	family nftables.TableFamily
	dev    string
	part   part
}

// part is what of a device's traffic is meant.
type part string

const (
	whole part = ""
	up    part = "up-"    // what goes to and from the router itself
	peers part = "peers-" // what the router's bridge passes on
)

// hooks are where that comes in and goes out.
func (p part) hooks() (in, out *nftables.ChainHook) {
	switch p {
	case up:
		return nftables.ChainHookInput, nftables.ChainHookOutput
	case peers:
		return nftables.ChainHookForward, nftables.ChainHookForward
	}
	return nftables.ChainHookPrerouting, nftables.ChainHookPostrouting
}

// cuts are the lines that are cut now.
type cuts struct {
	mu   sync.Mutex
	list []string
}

// Cuts are the lines that are cut now: "uplink UNIT", "uplink of NODE", "peers of NODE", "node NODE"
// and "link UNIT UNIT", in the order in which they were.
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
	in, out := w.part.hooks()
	t := conn.AddTable(&nftables.Table{Name: "cut-" + string(w.part) + w.dev, Family: w.family})
	if !cut {
		conn.DelTable(t)
	} else {
		w.drop(conn, t, "in", in, expr.MetaKeyIIFNAME)
		w.drop(conn, t, "out", out, expr.MetaKeyOIFNAME)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("cut or heal %s: %w", w.words, err)
	}
	return nil
}

func (w line) drop(conn *nftables.Conn, t *nftables.Table, name string, hook *nftables.ChainHook, key expr.MetaKey) {
	c := conn.AddChain(&nftables.Chain{Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRef(-310)})
	var list []expr.Any
	if w.part == up { // who is asked for its address answers: the line is dead behind it
		list = append(list, &expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1}, &expr.Cmp{Register: 1, Op: expr.CmpOpNeq, Data: []byte{0x08, 0x06}})
	}
	conn.AddRule(&nftables.Rule{Table: t, Chain: c, Exprs: append(list,
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: ifname(w.dev)},
		&expr.Verdict{Kind: expr.VerdictDrop},
	)})
}

// SetUplink cuts or heals what leads from a unit to the cloud and to units that
// it has no link to.
func (l *Lab) SetUplink(unit string, cut bool) error {
	u, err := l.unit(unit)
	if err != nil {
		return err
	}
	return l.set(line{words: "uplink " + unit, router: u.Router, family: nftables.TableFamilyINet, dev: "up0"}, cut)
}

// SetNode cuts or heals what leads from a node to anything else.
func (l *Lab) SetNode(node string, cut bool) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	return l.set(line{words: "node " + node, router: n.Unit.Router, family: nftables.TableFamilyBridge, dev: "p-" + node}, cut)
}

// SetNodeUplink cuts or heals what leads from a node out of its unit: to the cloud and to all
// other units.
func (l *Lab) SetNodeUplink(node string, cut bool) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	return l.set(line{words: "uplink of " + node, router: n.Unit.Router, family: nftables.TableFamilyBridge, dev: "p-" + node, part: up}, cut)
}

// SetNodePeers cuts or heals what leads from a node to the others of its unit. Its uplink stays.
func (l *Lab) SetNodePeers(node string, cut bool) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	return l.set(line{words: "peers of " + node, router: n.Unit.Router, family: nftables.TableFamilyBridge, dev: "p-" + node, part: peers}, cut)
}

// node is Node that says what there is.
func (l *Lab) node(name string) (*Node, error) {
	if n := l.Node(name); n != nil {
		return n, nil
	}
	var names []string
	for _, n := range l.Nodes() {
		names = append(names, n.Name)
	}
	return nil, fmt.Errorf("%w: node %q; there are %s", ErrNone, name, strings.Join(names, ", "))
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
	return l.set(line{words: "link " + words, router: x.Router, family: nftables.TableFamilyINet, dev: "x-" + y.Name}, cut)
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
