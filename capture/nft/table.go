package nft

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/rules"
)

// Of linux/netfilter/nf_tables.h: the table ends with the socket that made it,
// and is nobody else's to change; and the number of that socket. A chain that
// is part of a rule, as in "jump { ... }", goes with it and cannot be removed.
const (
	TableOwner   = 0x2
	ownerAttr    = 7
	chainBinding = 0x4
)

// Table is what the kernel says of our table of a family, all but elements.
// It is read without the library, which fails for a whole table where it knows
// one thing in it not: nothing that somebody puts there may be in our way.
type Table struct {
	Flags  uint32
	Owner  uint32 // the netlink port of who alone may change it
	Chains []string
	Sets   []Set
	Others int               // objects and flowtables
	Rules  map[string]int    // by chain
	Apart  map[string]string // what Text has of each chain, memory and list, and of all else as ""

	// Text is the same where nobody changed a thing: without handles and
	// what was counted.
	Text string
}

// Table reads our table of a family; nil where there is none.
func (s *Session) Table(family nftables.TableFamily) (*Table, error) {
	return s.TableOf(family, rules.Name)
}

// TableOf reads a table of ours by its name; nil where there is none, or none any more.
func (s *Session) TableOf(family nftables.TableFamily, name string) (*Table, error) {
	t := newTable()
	found := false
	var lines []string
	for _, kind := range []struct {
		what string
		ask  int
		read func(*entry)
	}{
		{"tables", unix.NFT_MSG_GETTABLE, func(e *entry) { found, t.Flags, t.Owner = true, e.uint32(unix.NFTA_TABLE_FLAGS), e.uint32(ownerAttr) }},
		{"chains", unix.NFT_MSG_GETCHAIN, t.addChain},
		{"sets", unix.NFT_MSG_GETSET, func(e *entry) { t.Sets = append(t.Sets, newFoundSet(e)) }},
		{"rules", unix.NFT_MSG_GETRULE, t.addRule},
		{"objects", unix.NFT_MSG_GETOBJ, func(*entry) { t.Others++ }},
		{"flowtables", unix.NFT_MSG_GETFLOWTABLE, func(*entry) { t.Others++ }},
	} {
		entries, err := s.entries(kind.ask, nl.Dump, family, name)
		if found && errors.Is(err, unix.ENOENT) { // it went meanwhile
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list nftables %s: %w", kind.what, err)
		}
		for _, e := range entries {
			kind.read(e)
			lines = append(lines, t.tell(kind.what, e))
		}
		if !found {
			return nil, nil
		}
	}
	slices.Sort(lines)
	t.Text = strings.Join(lines, "\n")
	return t, nil
}

func newTable() *Table { return &Table{Rules: map[string]int{}, Apart: map[string]string{}} }

// tell adds what is told of something to what it belongs to.
func (t *Table) tell(kind string, e *entry) (line string) {
	line = e.line(kind, t)
	t.Apart[e.chain(kind)] += line + "\n"
	return line
}

// ApartOf is what Apart has of some chains, memories and lists of a table, which are there.
func (s *Session) ApartOf(family nftables.TableFamily, table string, names []string) (map[string]string, error) {
	t := newTable()
	for _, name := range names {
		of := nl.Attribute{Type: unix.NFTA_CHAIN_NAME, Data: []byte(name + "\x00")}
		rules := nl.Attribute{Type: unix.NFTA_RULE_CHAIN, Data: of.Data}
		kinds := []question{{"chains", unix.NFT_MSG_GETCHAIN, 0, of}, {"rules", unix.NFT_MSG_GETRULE, nl.Dump, rules}}
		if isApart(name) {
			of.Type = unix.NFTA_SET_NAME
			kinds = []question{{"sets", unix.NFT_MSG_GETSET, 0, of}}
		}
		for _, q := range kinds {
			entries, err := s.entries(q.ask, q.flags, family, table, q.of)
			if err != nil {
				return nil, fmt.Errorf("list nftables %s of %s: %w", q.what, name, err)
			}
			for _, e := range entries {
				if q.what != "rules" {
					t.tell(q.what, e)
				} else if e.chain(q.what) == name { // an old kernel tells of all
					t.addRule(e)
					t.tell(q.what, e)
				}
			}
		}
	}
	return t.Apart, nil
}

// question is one about a part of a table.
type question struct {
	what  string
	ask   int
	flags nl.HeaderFlags
	of    nl.Attribute
}

// HasSet reports whether there is a set of a name. A table that is not there has none.
func (t *Table) HasSet(name string) bool {
	return t != nil && slices.ContainsFunc(t.Sets, func(s Set) bool { return s.Name == name })
}

func (t *Table) addChain(e *entry) {
	if e.uint32(chainFlags)&chainBinding == 0 {
		t.Chains = append(t.Chains, e.string(unix.NFTA_CHAIN_NAME))
	}
}

func (t *Table) addRule(e *entry) { t.Rules[e.string(unix.NFTA_RULE_CHAIN)]++ }

// entry is a message about something in our table, by attribute.
type entry struct {
	attrs map[uint16][]byte
}

// entries asks for all of a kind in a table of a family, or for those of a part of it.
func (s *Session) entries(ask int, flags nl.HeaderFlags, family nftables.TableFamily, table string, of ...nl.Attribute) ([]*entry, error) {
	// In every message about a table or about something in it, the first attribute names it.
	attrs := append([]nl.Attribute{{Type: unix.NFTA_TABLE_NAME, Data: []byte(table + "\x00")}}, of...)
	msgs, err := s.ask(ask, int(flags), family, attrs)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		if ask == unix.NFT_MSG_GETOBJ || ask == unix.NFT_MSG_GETFLOWTABLE {
			return nil, nil // an old kernel has none
		}
	}
	if err != nil {
		return nil, err
	}
	var list []*entry
	for _, m := range msgs {
		e, err := parseEntry(m)
		if err != nil {
			return nil, err
		}
		if len(m.Data) > 0 && m.Data[0] == byte(family) && e.string(unix.NFTA_TABLE_NAME) == table {
			list = append(list, e)
		}
	}
	return list, nil
}

func parseEntry(m nl.Message) (*entry, error) {
	attrs, err := Attributes(m)
	if err != nil {
		return nil, err
	}
	e := &entry{attrs: map[uint16][]byte{}}
	for attrs.Next() {
		e.attrs[attrs.Type()] = attrs.Bytes()
	}
	return e, attrs.Err()
}

// uint32 is 0 where there is no such attribute.
func (e *entry) uint32(of uint16) (n uint32) {
	for _, b := range e.attrs[of] {
		n = n<<8 | uint32(b)
	}
	return n
}

func (e *entry) string(of uint16) string { return strings.TrimRight(string(e.attrs[of]), "\x00") }

// lasting are the attributes that say what something is. Others count, or are
// numbers of the kernel's own, and some are still to be invented.
var lasting = map[string][]uint16{
	"tables": {unix.NFTA_TABLE_NAME, unix.NFTA_TABLE_FLAGS},
	"chains": {unix.NFTA_CHAIN_NAME, unix.NFTA_CHAIN_HOOK, unix.NFTA_CHAIN_POLICY, unix.NFTA_CHAIN_TYPE, chainFlags},
	"sets": {
		unix.NFTA_SET_NAME, unix.NFTA_SET_FLAGS, unix.NFTA_SET_KEY_TYPE, unix.NFTA_SET_KEY_LEN, unix.NFTA_SET_DATA_TYPE, unix.NFTA_SET_DATA_LEN,
		unix.NFTA_SET_DESC, unix.NFTA_SET_TIMEOUT, unix.NFTA_SET_GC_INTERVAL, unix.NFTA_SET_OBJ_TYPE, setExpr, setExpressions,
	},
	"rules":      {unix.NFTA_RULE_CHAIN, unix.NFTA_RULE_EXPRESSIONS},
	"objects":    {unix.NFTA_OBJ_NAME, unix.NFTA_OBJ_TYPE},
	"flowtables": {flowtableName},
}

// Of linux/netfilter/nf_tables.h.
const chainFlags, setExpr, setExpressions, flowtableName = 10, 17, 18, 2

// line tells something from others, and a rule from those before and after it.
func (e *entry) line(kind string, t *Table) string {
	var b strings.Builder
	b.WriteString(kind)
	if kind == "rules" {
		fmt.Fprintf(&b, " %s %05d", e.string(unix.NFTA_RULE_CHAIN), t.Rules[e.string(unix.NFTA_RULE_CHAIN)])
	}
	for _, of := range lasting[kind] {
		value := e.attrs[of]
		if kind == "rules" && of == unix.NFTA_RULE_EXPRESSIONS {
			value = uncountedList(value)
		}
		fmt.Fprintf(&b, " %d=%x", of, value)
	}
	return b.String()
}

// uncountedList is a list of expressions without what they count.
func uncountedList(raw []byte) (body []byte) {
	list, err := nl.NewAttributeDecoder(raw)
	if err != nil {
		return raw
	}
	for list.Next() {
		body = append(body, uncounted(list.Bytes())...)
	}
	return body
}

// uncounted is an expression, or the name alone of one that counts.
func uncounted(raw []byte) []byte {
	attrs, err := nl.NewAttributeDecoder(raw)
	if err != nil {
		return raw
	}
	for attrs.Next() {
		if attrs.Type() == unix.NFTA_EXPR_NAME && attrs.String() == "counter" {
			return []byte("counter")
		}
	}
	return raw
}
