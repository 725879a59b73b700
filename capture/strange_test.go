package capture

import (
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// command is a command of nftables as nft(8) sends it, for what the library cannot.
type command struct {
	msg   int
	attrs []nl.Attribute
}

func text(of uint16, s string) nl.Attribute { return nl.Attribute{Type: of, Data: []byte(s + "\x00")} }

func number(of uint16, n uint32) nl.Attribute {
	return nl.Attribute{Type: of, Data: binary.BigEndian.AppendUint32(nil, n)}
}

func nest(of uint16, in ...nl.Attribute) nl.Attribute {
	data, err := nl.MarshalAttributes(in)
	if err != nil {
		panic(err)
	}
	return nl.Attribute{Type: unix.NLA_F_NESTED | of, Data: data}
}

// expression is one of a rule or an element.
func expression(of uint16, name string, in ...nl.Attribute) nl.Attribute {
	return nest(of, text(unix.NFTA_EXPR_NAME, name), nest(unix.NFTA_EXPR_DATA, in...))
}

// transact sends commands as one transaction, and leaves its socket open until
// the test or until closed.
func transact(t *testing.T, commands ...command) (conn *nl.Conn, err error) {
	t.Helper()
	conn, err = nl.Dial(unix.NETLINK_NETFILTER, nil)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	var batch []nl.Message
	for _, c := range commands {
		one, err := nft.Batch(nl.Message{Header: nl.Header{Type: nft.Message(c.msg), Flags: nl.Request | nl.Acknowledge | nl.Create}}, nftables.TableFamilyINet, append([]nl.Attribute{text(1, rules.Name)}, c.attrs...))
		must(t, err)
		batch = append(batch[:max(0, len(batch)-1)], one[min(1, len(batch)):]...)
	}
	_, err = conn.SendMessages(batch)
	must(t, err)
	for range commands {
		if _, err := conn.Receive(); err != nil {
			return conn, err
		}
	}
	return conn, nil
}

// Of linux/netfilter/nf_tables.h.
const (
	chainFlags, chainID, ruleChainID, verdictChainID = 10, 11, 11, 3
	tableDormant, tablePersist                       = 0x1, 0x4
)

// anonymous is "add rule ... chain jump { counter; }".
func anonymous(chain string) []command {
	return []command{
		{unix.NFT_MSG_NEWCHAIN, []nl.Attribute{number(chainFlags, 4), number(chainID, 1)}},
		{unix.NFT_MSG_NEWRULE, []nl.Attribute{number(ruleChainID, 1), nest(unix.NFTA_RULE_EXPRESSIONS, expression(unix.NFTA_LIST_ELEM, "counter"))}},
		{unix.NFT_MSG_NEWRULE, []nl.Attribute{text(unix.NFTA_RULE_CHAIN, chain), nest(unix.NFTA_RULE_EXPRESSIONS, expression(unix.NFTA_LIST_ELEM, "immediate",
			number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
			nest(unix.NFTA_IMMEDIATE_DATA, nest(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, 0xfffffffd), number(verdictChainID, 1)))))}},
	}
}

// element is "add element ... set { ... }".
func element(set string, of ...nl.Attribute) command {
	return command{unix.NFT_MSG_NEWSETELEM, []nl.Attribute{text(unix.NFTA_SET_ELEM_LIST_SET, set), nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, nest(unix.NFTA_LIST_ELEM, of...))}}
}

func catchAll(set string) command { return element(set, number(unix.NFTA_SET_ELEM_FLAGS, 2)) }

func key(of nftables.SetElement) nl.Attribute {
	return nest(unix.NFTA_SET_ELEM_KEY, nl.Attribute{Type: unix.NFTA_DATA_VALUE, Data: of.Key})
}

// never is "quota over N bytes": the element is found by nobody.
func never() nl.Attribute {
	return expression(unix.NFTA_SET_ELEM_EXPR, "quota", nl.Attribute{Type: 1, Data: binary.BigEndian.AppendUint64(nil, 1<<60)}, number(2, 1))
}

func deletion(set string, e nftables.SetElement) command {
	c := element(set, key(e))
	c.msg = unix.NFT_MSG_DELSETELEM
	return c
}

// strange is what somebody may put into our table, by nft(8).
func strange() map[string][]command {
	guard, serve := rangeElements(config().ServiceCIDRs[0])[0], nftables.SetElement{Key: []byte{10, 96, 0, 1, unix.IPPROTO_TCP, 0, 0, 0, 0, 80, 0, 0}}
	chain := func(name string, of ...nl.Attribute) command {
		return command{unix.NFT_MSG_NEWCHAIN, append([]nl.Attribute{text(unix.NFTA_CHAIN_NAME, name)}, of...)}
	}
	set := func(name string, of ...nl.Attribute) command {
		return command{unix.NFT_MSG_NEWSET, append([]nl.Attribute{text(unix.NFTA_SET_NAME, name), number(unix.NFTA_SET_KEY_LEN, 4), number(unix.NFTA_SET_KEY_TYPE, 7), number(unix.NFTA_SET_ID, 77)}, of...)}
	}
	counter := command{unix.NFT_MSG_NEWOBJ, []nl.Attribute{text(unix.NFTA_OBJ_NAME, "theirs"), number(unix.NFTA_OBJ_TYPE, 1), nest(unix.NFTA_OBJ_DATA)}}
	counts := nest(unix.NFTA_RULE_EXPRESSIONS, expression(unix.NFTA_LIST_ELEM, "objref", number(1, 1), text(2, "theirs")))
	return map[string][]command{
		"an anonymous chain":                     anonymous(rules.GuardOutput),
		"an anonymous chain in one that is used": anonymous(rules.GuardForward),
		"an anonymous chain in one of theirs":    append([]command{chain("theirs")}, anonymous("theirs")...),
		"a chain of theirs that drops": {chain("theirs", text(unix.NFTA_CHAIN_TYPE, "filter"), number(unix.NFTA_CHAIN_POLICY, 0),
			nest(unix.NFTA_CHAIN_HOOK, number(unix.NFTA_HOOK_HOOKNUM, 1), number(unix.NFTA_HOOK_PRIORITY, 5)))},
		"that the table is dormant":           {{unix.NFT_MSG_NEWTABLE, []nl.Attribute{number(unix.NFTA_TABLE_FLAGS, tableDormant)}}},
		"all, among what is served":           {catchAll("serve4")},
		"all, among what is dropped":          {catchAll("silent6")},
		"all, among endpoints":                {catchAll("hairpin4")},
		"all, among clients over their share": {catchAll("over4")},
		"all, among bridges":                  {catchAll(rules.Bridges)},
		"all, in the mark of the layout":      {catchAll(rules.Layout)},
		"a client for ever":                   {element("over4", key(nftables.SetElement{Key: []byte{10, 244, 0, 5}}))},
		"a guard that is never found":         {deletion("guard4", guard), element("guard4", key(guard), never())},
		"a frontend that is never found":      {deletion("serve4", serve), element("serve4", key(serve), never())},
		"a comment":                           {deletion("serve4", serve), element("serve4", key(serve), nl.Attribute{Type: unix.NFTA_SET_ELEM_USERDATA, Data: []byte{0, 2, 'x', 0}})},
		"a counter that has a name":           {counter},
		"such a counter, in a rule":           {counter, {unix.NFT_MSG_NEWRULE, []nl.Attribute{text(unix.NFTA_RULE_CHAIN, rules.Capture), counts}}},
		"a set of theirs with a timeout":      {set("theirs", number(unix.NFTA_SET_FLAGS, unix.NFT_SET_TIMEOUT))},
		"a map of theirs to verdicts":         {set("theirs", number(unix.NFTA_SET_FLAGS, unix.NFT_SET_MAP), number(unix.NFTA_SET_DATA_TYPE, unix.NFT_DATA_VERDICT))},
		"a map of theirs to counters":         {counter, set("theirs", number(unix.NFTA_SET_FLAGS, unix.NFT_SET_OBJECT), number(unix.NFTA_SET_OBJ_TYPE, 1))},
		"a flowtable":                         {{unix.NFT_MSG_GETFLOWTABLE - 1, []nl.Attribute{text(2, "theirs"), nest(3, number(1, 0), number(2, 0), nest(3))}}},
	}
}

// kernelHas puts something into our table, or skips the test where this kernel
// has no such thing.
func kernelHas(t *testing.T, commands []command) {
	t.Helper()
	_, err := transact(t, commands...)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
		t.Skipf("SKIPPED: the kernel takes no such thing: %v", err)
	}
	must(t, err)
}

// Whatever somebody puts into our table, what is ours is right again by Repair,
// by a start, and by the next view, and then stays so.
func TestNothingInOurTableIsInTheWay(t *testing.T) {
	t.Parallel()
	for name, harm := range strange() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, k := inForce(t)
			before := elements(t)
			again := func(who string) {
				t.Helper()
				if after := elements(t); !reflect.DeepEqual(after, before) {
					t.Errorf("%s, sets after: %v, before: %v", who, after, before)
				}
				whole(t, c)
			}
			kernelHas(t, harm)
			repaired, err := c.Repair()
			if err != nil || !repaired {
				t.Errorf("repaired %v, %v", repaired, err)
			}
			again("Repair")

			kernelHas(t, harm)
			apply(t, c, k.serve("more", "10.96.0.9", "10.244.0.7").view(), false)
			if !serves(t, "10.96.0.9:80") {
				t.Error("a view has no effect")
			}
			_, err = c.Repair()
			must(t, err)
			apply(t, c, k.serve("more", "10.96.0.9").view(), false)
			_, err = c.Repair()
			must(t, err)
			again("a view")

			kernelHas(t, harm)
			c = starting(t, config(), testHost(t))
			if got := elements(t); !reflect.DeepEqual(got["guard4"], before["guard4"]) || !serves(t, web) {
				t.Errorf("a start keeps of what it finds: %v", got)
			}
			apply(t, c, k.view(), false)
			_, err = c.Repair()
			must(t, err)
			again("a start")
		})
	}
}

// A table that persists takes no other flags; one that has an owner is not ours
// to change, and who it is and what to do is said until the owner is gone.
func TestTableOfAnOwner(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]uint32{"owner": nft.TableOwner, "owner, persist": nft.TableOwner | tablePersist, "persist": tablePersist, "dormant, persist": tableDormant | tablePersist} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, k := inForce(t)
			before := elements(t)
			conn, err := transact(t, command{unix.NFT_MSG_DELTABLE, nil}, command{unix.NFT_MSG_NEWTABLE, []nl.Attribute{number(unix.NFTA_TABLE_FLAGS, flags)}})
			if errors.Is(err, unix.EOPNOTSUPP) {
				t.Skip("SKIPPED: the kernel has no such flag (before 6.9)")
			}
			must(t, err)
			if flags&nft.TableOwner != 0 {
				_, err := c.Repair()
				comm, _ := os.ReadFile("/proc/self/comm")
				if err == nil || !strings.Contains(err.Error(), "owner") || !strings.Contains(err.Error(), "stop that process") || !strings.Contains(err.Error(), "netlink port") {
					t.Errorf("%v; this is %s", err, comm)
				}
				must(t, conn.Close())
			}
			for range 2 { // the kernel removes what was owned in its own time
				_, err = c.Repair()
			}
			must(t, err)
			if after := elements(t); !reflect.DeepEqual(after, before) {
				t.Errorf("sets after: %v, before: %v", after, before)
			}
			whole(t, c)
			apply(t, c, k.view(), false)
			must(t, c.Remove())
		})
	}
}

// While the table is made anew there is no moment without it: it goes and comes
// in one transaction, and with it the guard.
func TestRemakeIsOneTransaction(t *testing.T) {
	t.Parallel()
	c, _ := inForce(t)
	conn, err := nl.Dial(unix.NETLINK_NETFILTER, &nl.Config{Groups: 1 << (nft.NotifyGroup - 1)})
	must(t, err)
	defer conn.Close()
	kernelHas(t, anonymous(rules.GuardOutput))
	kernelHas(t, strange()["a counter that has a name"])
	must(t, c.installTable(true))
	there, remade := true, false
	for !remade {
		msgs, err := conn.Receive()
		must(t, err)
		for _, m := range msgs {
			switch m.Header.Type {
			case nft.Message(unix.NFT_MSG_DELTABLE):
				there = false
			case nft.Message(unix.NFT_MSG_NEWTABLE):
				there, remade = true, true
			case nft.Message(unix.NFT_MSG_NEWGEN):
				if !there {
					t.Fatal("a generation without the table")
				}
			}
		}
	}
}

// What others write into tables of their own costs no look at ours.
func TestOthersTablesAreNotLookedAt(t *testing.T) {
	t.Parallel()
	c, _ := inForce(t)
	for again := true; again; {
		var err error
		again, err = c.Repair()
		must(t, err)
	}
	if repaired, err := c.Repair(); repaired || err != nil {
		t.Fatalf("repaired %v, %v", repaired, err)
	}
	was := c.table.text
	c.table.text = "not what the kernel has, should anybody look"
	for _, family := range []nftables.TableFamily{nftables.TableFamilyINet, nftables.TableFamilyIPv4} {
		name := map[nftables.TableFamily]string{nftables.TableFamilyINet: "theirs", nftables.TableFamilyIPv4: rules.Name}[family]
		addChain(t, &nftables.Chain{Table: &nftables.Table{Name: name, Family: family}, Name: "x"})
		if repaired, err := c.Repair(); repaired || err != nil {
			t.Errorf("after a chain in a table %s of theirs: %v, %v", name, repaired, err)
		}
	}
	c.table.text = was
	kernelHas(t, anonymous(rules.GuardOutput))
	if repaired, err := c.Repair(); !repaired || err != nil {
		t.Errorf("after a rule in ours: %v, %v", repaired, err)
	}
}
