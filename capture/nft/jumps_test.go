package nft

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// Of a torn list what was told is handed on, once: who goes on with that asks again.
func TestEachChainOfATornList(t *testing.T) {
	kernel := newTearing(t, told(unix.NFT_MSG_NEWCHAIN,
		nl.Attribute{Type: unix.NFTA_CHAIN_TABLE, Data: []byte("nat\x00")},
		nl.Attribute{Type: unix.NFTA_CHAIN_NAME, Data: []byte("KUBE-SERVICES\x00")}))
	s := New()
	s.raw = nl.NewConn(kernel, 7)
	var names []string
	err := s.EachChain(&nftables.Table{Name: "nat", Family: nftables.TableFamilyINet}, func(name string) { names = append(names, name) })
	if !errors.Is(err, dump.ErrTorn) || !slices.Equal(names, []string{"KUBE-SERVICES"}) || kernel.asked != 1 {
		t.Errorf("%v and %v, asked %d times", names, err, kernel.asked)
	}
}

// Chains and rules are found where they are, no further is read than is wanted, and what is
// not there is nothing.
func TestJumps(t *testing.T) {
	testkit.NewNetwork(t)
	s := Open()
	defer s.Close()
	const many = 2000
	table := s.AddTable(&nftables.Table{Name: "ours", Family: nftables.TableFamilyIPv4})
	from := s.AddChain(&nftables.Chain{Name: "from", Table: table})
	to := s.AddChain(&nftables.Chain{Name: "to", Table: table})
	s.AddRule(&nftables.Rule{Table: table, Chain: from, Exprs: []expr.Any{&expr.Counter{}}})
	must(t, s.Flush())
	for range 4 {
		for range many / 4 {
			s.AddRule(&nftables.Rule{Table: table, Chain: from, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: to.Name}}})
		}
		must(t, s.Flush())
	}
	for most, want := range map[int]int{1: 1, 7: 7, many + 1: many} {
		var list []Jump
		must(t, s.EachJump(table, "from", func(j Jump) bool { list = append(list, j); return len(list) < most }))
		if len(list) != want || list[0].To != "to" || list[0].Chain != "from" || list[0].Handle == 0 {
			t.Errorf("%d jumps, the first is %+v; want %d", len(list), list[0], want)
		}
		first, err := s.FirstRule(table, "from")
		must(t, err)
		if first == 0 || first >= list[0].Handle {
			t.Errorf("the first rule is %d, before %d", first, list[0].Handle)
		}
	}
	nobody := &nftables.Table{Name: "nobody", Family: nftables.TableFamilyIPv4}
	for of, want := range map[*nftables.Table]bool{table: true, nobody: false} {
		has, err := s.HasTable(of)
		must(t, err)
		chain, err := s.HasChain(of, "from")
		must(t, err)
		if has != want || chain != want {
			t.Errorf("table %s: %v, chain %v", of.Name, has, chain)
		}
		first, err := s.FirstRule(of, "to")
		must(t, err)
		elements, err := s.HasElements(&nftables.Set{Table: of, Name: "none"})
		must(t, err)
		must(t, s.EachJump(of, "none", func(Jump) bool { return true }))
		if first != 0 || elements {
			t.Errorf("table %s: rule %d, elements %v", of.Name, first, elements)
		}
	}
}
