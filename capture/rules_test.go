package capture

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

func kept() plan.Config {
	c := config()
	c.KeepBridgeNetfilter = true
	return c
}

// What the tracer walks is what the kernel has, chain by chain, term by term.
func TestKernelHasTheRules(t *testing.T) {
	t.Parallel()
	eachTable(t, inKernel)
}

func inKernel(t *testing.T, want *rules.Table) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	table := &nftables.Table{Name: want.Name, Family: nftables.TableFamilyINet}
	if want.Family == "bridge" {
		table.Family = nftables.TableFamilyBridge
	}
	all, err := conn.ListChainsOfTableFamily(table.Family)
	must(t, err)
	var chains []*nftables.Chain
	for _, c := range all {
		if c.Table.Name == want.Name {
			chains = append(chains, c)
		}
	}
	if len(chains) != len(want.Chains) {
		t.Fatalf("%s: %d chains in the kernel, want %d", want.Family, len(chains), len(want.Chains))
	}
	for i := range want.Chains {
		c := nft.NewChain(table, &want.Chains[i])
		if got := chains[i]; got.Name != c.Name || got.Type != c.Type || !reflect.DeepEqual(got.Hooknum, c.Hooknum) || !reflect.DeepEqual(got.Priority, c.Priority) {
			t.Errorf("chain %d is %+v, want %+v", i, got, c)
		}
		list, err := conn.GetRules(table, c)
		must(t, err)
		if len(list) != len(want.Chains[i].Rules) {
			t.Errorf("chain %s has %d rules, want %d", c.Name, len(list), len(want.Chains[i].Rules))
			continue
		}
		for j, r := range want.Chains[i].Rules {
			if got, want := read(list[j].Exprs), read(nft.Expressions(r)); !reflect.DeepEqual(got, want) {
				t.Errorf("chain %s, %s:\n got %v\nwant %v", c.Name, r, got, want)
			}
		}
	}
}

// read is a list of expressions as the library reads them back: without the
// kinds that it cannot read (nft can, below), where a ct mark is written
// from and what was counted, and with registers as the kernel numbers them.
func read(list []expr.Any) (lines []string) {
	for _, e := range list {
		v := reflect.New(reflect.TypeOf(e).Elem()).Elem()
		v.Set(reflect.ValueOf(e).Elem())
		switch x := e.(type) {
		case *expr.Socket, *expr.TProxy, *expr.Rt:
			continue
		case *expr.Ct:
			if x.SourceRegister {
				v.Set(reflect.ValueOf(expr.Ct{Key: x.Key})) // what it writes is read, what from is not
			}
		case *expr.Counter:
			v.SetZero()
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Uint32 && strings.Contains(v.Type().Field(i).Name, "Reg") && f.Uint() >= unix.NFT_REG32_00 && f.Uint()%4 == 0 {
				f.SetUint(f.Uint()/4 - 1) // four of 32 bits are one of 128
			}
		}
		lines = append(lines, fmt.Sprintf("%s%+v", v.Type().Name(), v.Interface()))
	}
	return lines
}

// The text of the rules is what nft(8) makes the same rules of.
func TestNftReadsTheSameRules(t *testing.T) {
	t.Parallel()
	eachTable(t, func(t *testing.T, table *rules.Table) {
		text := strings.Replace(table.String(), "table "+table.Family+" "+rules.Name, "table "+table.Family+" fromtext", 1)
		nftCommand(t, text, "-f", "-")
		listed := func(name string) []string {
			s := nftCommand(t, "", "-s", "list", "table", table.Family, name)
			s = regexp.MustCompile(`(?s)\s+elements = \{.*?\}`).ReplaceAllString(s, "")
			return strings.Split(strings.Replace(s, name, "NAME", 1), "\n")
		}
		got, want := listed(rules.Name), listed("fromtext")
		if len(got) != len(want) {
			t.Fatalf("%d lines, from text %d:\n%s\n%s", len(got), len(want), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("line %d:\n   written: %s\n from text: %s", i+1, got[i], want[i])
			}
		}
	})
}

// eachTable runs f on every table that the capture installs on a node with a
// bridge, in every configuration that makes a difference.
func eachTable(t *testing.T, f func(t *testing.T, table *rules.Table)) {
	t.Helper()
	for name, cfg := range map[string]plan.Config{"default": config(), "bridge netfilter kept": kept()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := started(t, cfg)
			addBridge(t, "cni0")
			_, err := c.RefreshBridges()
			must(t, err)
			f(t, rules.Inet(cfg))
			f(t, rules.Bridge(c.bridges))
		})
	}
}
