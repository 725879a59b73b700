package capture

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// What a packet meets that was led to a chain of three endpoints, or near ones, and looks its
// number up when there is the first one alone: it gets that, and is remembered with it. Where
// there is none it is refused. Nobody is counted as one that there was no room for.
func TestAnEndpointThatWentUnderWay(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	for name, n := range map[string]*testkit.Network{"a": l.a, "b": l.b, "far": l.far} {
		l.serve(t, name, n)
	}
	for _, ipv6 := range []bool{false, true} {
		for _, keep := range []time.Duration{0, time.Hour} {
			port := 30080 + int(keep/time.Hour)
			cluster, door, node := "10.96.0.1:%d", "0.0.0.0:%d", "192.0.2.1:%d"
			if ipv6 {
				cluster, door, node = "[fd00:96::1]:%d", "[::]:%d", "[2001:db8::1]:%d"
			}
			all := tiers(ipv6, "a", "b", "far") // also for who is to get near ones: it is about numbers
			l.put(t,
				plan.KernelFrontend{Frontend: tcp(fmt.Sprintf(cluster, port)), Tiers: all, Affinity: keep},
				plan.KernelFrontend{Frontend: tcp(fmt.Sprintf(door, port)), Tiers: all, Affinity: keep, Outside: &plan.KernelOutside{Local: true, LocalTiers: all}})
			l.dialLessTwo(t, fmt.Sprintf(cluster, port), plan.Pick{Sticky: uint32(keep / time.Second)})
			l.dialLessTwo(t, fmt.Sprintf(node, port), plan.Pick{Sticky: uint32(keep / time.Second), Near: true})
		}
	}
	l.kernel.full.looked = time.Time{}
	must(t, l.lookAtMemories(time.Now()))
	if list := l.own.all(); len(list) > 0 {
		t.Errorf("there was room for everybody, and found is %v", list)
	}
}

// dialLessTwo dials a frontend without the last two of its three numbers, and without any.
func (l *kernelLab) dialLessTwo(t *testing.T, to string, p plan.Pick) {
	t.Helper()
	l.lose(t, to, p, 1, 2)
	for range 20 { // one in three chooses the first by itself
		if p.Sticky > 0 {
			l.emptyMemories(t)
		}
		for range 2 {
			if got, _ := once(t, l.outside, "", to); got != "a" {
				t.Errorf("%s, %+v: %s answers", to, p, got)
			}
		}
		if n := l.remembered(t); p.Sticky > 0 && n != 1 {
			t.Errorf("%s, %+v: %d clients are remembered", to, p, n)
		}
	}
	if p.Sticky > 0 {
		l.emptyMemories(t)
	}
	l.lose(t, to, p, 0)
	if got, _ := once(t, l.outside, "", to); got != isRefused {
		t.Errorf("%s, %+v: %s answers, and there is nobody", to, p, got)
	}
}

// lose takes numbers of a frontend's endpoints away, and leaves the chain that picks among them.
func (l *kernelLab) lose(t *testing.T, to string, p plan.Pick, numbers ...uint32) {
	t.Helper()
	k, family := l.kernel.table, rules.FamilyOf(tcp(to).Addr)
	from := []rules.SetName{rules.Slots}
	if p.Sticky > 0 {
		from = append(from, rules.Names)
	}
	for _, set := range from {
		for _, n := range numbers {
			gone := nftables.SetElement{Key: numberedKey(tcp(to), rules.First(p)+n)}
			must(t, k.conn.SetDeleteElements(k.sets[set.For(family)], []nftables.SetElement{gone}))
		}
	}
	must(t, k.conn.Flush())
}

// remembered is how many clients are, in all memories.
func (l *kernelLab) remembered(t *testing.T) (n int) {
	t.Helper()
	found, err := l.kernel.table.found()
	must(t, err)
	for _, s := range found.Sets {
		if _, ok := rules.ParseMemory(s.Name); ok {
			list, err := nft.ReadMap(rules.KernelName, s.Name)
			must(t, err)
			n += len(list)
		}
	}
	return n
}

// A chain and its memory are in force before anything leads there: who was led there in the
// same transaction would find the chain as it was before, empty.
func TestChainsComeBeforeWhatLeadsToThem(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	web := func(names ...string) []plan.KernelFrontend {
		return []plan.KernelFrontend{
			{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, names...)},
			{Frontend: tcp("0.0.0.0:30080"), Tiers: tiers(false, names...), Affinity: time.Hour, Outside: &plan.KernelOutside{Local: true, LocalTiers: tiers(false, names...)}},
		}
	}
	for when, step := range map[string]func() error{
		"another number": func() error {
			return c.setKernel(map[string][]plan.KernelFrontend{"default/web": web("a", "b", "far")}, false)
		},
		"compared": func() error {
			c.kernel.held = unsure
			return c.setKernel(map[string][]plan.KernelFrontend{"default/web": web("a", "b", "far")}, false)
		},
	} {
		must(t, c.setKernel(map[string][]plan.KernelFrontend{"default/web": web("a", "b")}, false))
		events := watchWrites(t)
		must(t, step())
		came := writesSince(t, events, unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_NEWRULE, unix.NFT_MSG_NEWSET, unix.NFT_MSG_NEWSETELEM)
		chains := 0
		for name, at := range came {
			if p, ok := rules.ParsePick(name); ok {
				chains++
				leads := came[rules.Front.For(rules.IPv4)]
				if p.Near {
					leads = came[rules.Near.For(rules.IPv4)]
				}
				if at.last >= leads.first || leads.first == 0 {
					t.Errorf("%s: %s is in force with transaction %d, and what leads there with %d", when, name, at.last, leads.first)
				}
			}
		}
		if chains != 3 {
			t.Errorf("%s: of %v %d pick", when, slices.Sorted(maps.Keys(came)), chains)
		}
	}
}

// The kernel path sees no new packet before what it looks up goes: one that is under way
// would find nothing there, and be refused.
func TestKernelPathIsUnhookedBeforeItGoes(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	host := testHost(t)
	starting(t, kernelConfig(), host)
	events := watchWrites(t)
	must(t, Cleanup(t.Context(), kernelConfig(), host))
	went := writesSince(t, events, unix.NFT_MSG_DELTABLE, unix.NFT_MSG_DELCHAIN)
	table := went[rules.KernelName].first
	for _, chain := range []string{rules.KernelIn, rules.KernelOut} {
		if at := went[chain].last; at == 0 || at >= table {
			t.Errorf("%s goes in transaction %d, and the table in %d", chain, at, table)
		}
	}
	if at := went[rules.KernelPost].first; at > 0 && at < table {
		t.Error("who gives sources goes before")
	}
}

// A packet that was under way when the kernel path was unhooked finds all that it looks up,
// however long its way is: a fifth of a second here, by rules that somebody put before ours. On
// one core nothing happens beside it.
func TestCleanupWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "far", l.far)
	const to = "10.96.0.1:80"
	l.put(t, plan.KernelFrontend{Frontend: tcp(to), Tiers: tiers(false, "far")})
	translateToo(t, l)
	began, cores := slowDown(t, l), cores(t)
	answered := make(chan string)
	go func() {
		var name string
		must(t, l.a.Do(func() error {
			keepTo(t, cores[0])
			conn, err := net.DialTimeout("tcp", to, 10*time.Second)
			if err != nil {
				name = failure(err)
				return nil
			}
			defer conn.Close()
			name, _, _ = strings.Cut(ask(conn, 10*time.Second), " ")
			return nil
		}))
		answered <- name
	}()
	keepTo(t, cores[len(cores)-1])
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		list, err := l.kernel.table.conn.GetRules(began.Table, began)
		must(t, err)
		i := slices.IndexFunc(list[0].Exprs, func(e expr.Any) bool { _, is := e.(*expr.Counter); return is })
		if list[0].Exprs[i].(*expr.Counter).Packets > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is under way")
		}
	}
	must(t, Cleanup(t.Context(), l.cfg, l.host))
	if name := <-answered; name != "far" {
		t.Errorf("%s answers", name)
	}
}

// translateToo is somebody else who translates and asks conntrack, as on every node: with the
// last of those the kernel ends what it has begun.
func translateToo(t *testing.T, l *kernelLab) {
	t.Helper()
	conn := l.kernel.table.conn
	table := conn.AddTable(&nftables.Table{Name: "theirs", Family: nftables.TableFamilyINet})
	post := conn.AddChain(&nftables.Chain{Table: table, Name: "post", Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	conn.AddRule(&nftables.Rule{Table: table, Chain: post, Exprs: nft.Expressions(rules.Rule{rules.DNATed{}, rules.Return})})
	must(t, conn.Flush())
}

// slowDown makes the way of a packet of TCP that comes in long, and returns the chain whose
// first rule counts those that began it.
func slowDown(t *testing.T, l *kernelLab) *nftables.Chain {
	t.Helper()
	k := l.kernel.table
	work := &expr.Fib{Register: unix.NFT_REG_1, ResultADDRTYPE: true, FlagSADDR: true}
	chain := func(name string, n int, exprs ...expr.Any) {
		c := k.conn.AddChain(&nftables.Chain{Table: k.nft, Name: name})
		for range n {
			k.conn.AddRule(&nftables.Rule{Table: k.nft, Chain: c, Exprs: exprs})
		}
		must(t, k.conn.Flush())
	}
	chain("work", 500, slices.Repeat([]expr.Any{work}, 8)...)
	chain("again", 500, &expr.Verdict{Kind: expr.VerdictJump, Chain: "work"})
	in := &nftables.Chain{Table: k.nft, Name: rules.KernelIn}
	k.conn.InsertRule(&nftables.Rule{Table: k.nft, Chain: in, Exprs: nft.Expressions(rules.Rule{rules.L4{Protocol: topology.TCP}, rules.Counter{}, rules.Jump{Chain: "again"}})})
	must(t, k.conn.Flush())
	return in
}

// transactions are those in which something was written: numbered from 1.
type transactions struct{ first, last int }

// watchWrites is told of all that is written into nftables from now on.
func watchWrites(t *testing.T) *nl.Conn {
	t.Helper()
	events, err := nl.Dial(unix.NETLINK_NETFILTER, nil)
	must(t, err)
	t.Cleanup(func() { events.Close() })
	must(t, events.JoinGroup(unix.NFNLGRP_NFTABLES))
	return events
}

// writesSince are writes of some kinds to the kernel path up to now: to its table, chains
// and sets, by name.
func writesSince(t *testing.T, events *nl.Conn, kinds ...int) map[string]transactions {
	t.Helper()
	now, err := nft.New().Generation()
	must(t, err)
	list := map[string]transactions{}
	must(t, events.SetReadDeadline(time.Now().Add(30*time.Second)))
	for n, seen := 1, uint32(0); seen != now; {
		msgs, err := events.Receive()
		must(t, err)
		for _, m := range msgs {
			if m.Header.Type == nft.Message(unix.NFT_MSG_NEWGEN) {
				n++
				seen = generationOf(t, m)
			}
			if !slices.ContainsFunc(kinds, func(k int) bool { return m.Header.Type == nft.Message(k) }) {
				continue
			}
			if table, name := aboutWhat(t, m); table == rules.KernelName {
				at := list[name]
				if at.first == 0 {
					at.first = n
				}
				at.last = n
				list[name] = at
			}
		}
	}
	return list
}

func generationOf(t *testing.T, m nl.Message) (gen uint32) {
	t.Helper()
	attrs, err := nft.Attributes(m)
	must(t, err)
	for attrs.Next() {
		if attrs.Type() == unix.NFTA_GEN_ID {
			gen = attrs.Uint32()
		}
	}
	return gen
}

// aboutWhat is the table that a message is about, and the chain or set, or the table again.
func aboutWhat(t *testing.T, m nl.Message) (table, name string) {
	t.Helper()
	attrs, err := nft.Attributes(m)
	must(t, err)
	named := map[nl.HeaderType]uint16{
		nft.Message(unix.NFT_MSG_NEWCHAIN): unix.NFTA_CHAIN_NAME, nft.Message(unix.NFT_MSG_DELCHAIN): unix.NFTA_CHAIN_NAME,
		nft.Message(unix.NFT_MSG_NEWRULE): unix.NFTA_RULE_CHAIN, nft.Message(unix.NFT_MSG_NEWSET): unix.NFTA_SET_NAME,
		nft.Message(unix.NFT_MSG_NEWSETELEM): unix.NFTA_SET_ELEM_LIST_SET,
	}[m.Header.Type]
	for attrs.Next() {
		switch attrs.Type() {
		case unix.NFTA_TABLE_NAME: // and that of everything within
			table = attrs.String()
		case named:
			name = attrs.String()
		}
	}
	if name == "" {
		name = table
	}
	return table, name
}
