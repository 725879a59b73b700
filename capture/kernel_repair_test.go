package capture

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// kernelState is all that the kernel path has in nftables; empty where there is
// no table.
func kernelState(t *testing.T) map[string]string {
	t.Helper()
	k := newKernelTable(kernelConfig())
	found, err := k.found()
	must(t, err)
	if found == nil {
		return nil
	}
	state := found.Apart
	elements, err := readElements()
	must(t, err)
	for name, list := range elements {
		for key, e := range list {
			state[fmt.Sprintf("%s %x", name, key)] = fmt.Sprintf("%x", e)
		}
	}
	pods, err := k.conn.GetSetElements(k.sets["pods4"])
	must(t, err)
	state["pods"] = fmt.Sprint(pods)
	for _, l := range listsAmong(found.Chains) {
		ranges, err := nft.ReadMap(k.nft.Name, rules.RangesName(l))
		must(t, err)
		state["ranges "+l.Name()] = fmt.Sprint(prefixes(ranges))
	}
	return state
}

func example() []plan.KernelFrontend {
	return []plan.KernelFrontend{
		{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, "b")},
		{Frontend: tcp("10.96.0.2:80"), Tiers: tiers(false, "a", "b", "far"), Affinity: time.Hour},
		{Frontend: tcp("0.0.0.0:30080"), Tiers: tiers(false, "b"), Outside: &plan.KernelOutside{Local: true, LocalTiers: tiers(false, "b")}},
		{Frontend: tcp("203.0.113.2:80"), Tiers: tiers(false, "b"), Outside: &plan.KernelOutside{Sources: append(podCIDRs[:len(podCIDRs):len(podCIDRs)], netip.MustParsePrefix("192.0.2.0/24"))}},
	}
}

// listIn is the set of a list that is there.
func listIn(t *testing.T, k *kernelTable) *nftables.Set {
	t.Helper()
	found, err := k.found()
	must(t, err)
	return nft.NewSet(k.nft, rules.ListSet(listsAmong(found.Chains)[0]))
}

func TestKernelRepair(t *testing.T) {
	t.Parallel()
	front4 := frontendKey(tcp("10.96.0.1:80"))
	slot := append(frontendKey(tcp("10.96.0.1:80")), 0, 0, 0, 0)
	for name, harm := range map[string]func(t *testing.T, k *kernelTable) error{
		"nothing": func(*testing.T, *kernelTable) error { return nil },
		"the table": func(_ *testing.T, k *kernelTable) error {
			k.conn.DelTable(k.nft)
			return nil
		},
		"an element": func(_ *testing.T, k *kernelTable) error {
			return k.conn.SetDeleteElements(k.sets["front4"], []nftables.SetElement{{Key: front4}})
		},
		"where an element leads to": func(_ *testing.T, k *kernelTable) error {
			return errorsOf(
				k.conn.SetDeleteElements(k.sets["slots4"], []nftables.SetElement{{Key: slot}}),
				k.conn.SetAddElements(k.sets["slots4"], []nftables.SetElement{{Key: slot, Val: []byte{192, 0, 2, 9, 0, 80, 0, 0}}}))
		},
		"a verdict": func(_ *testing.T, k *kernelTable) error {
			return errorsOf(
				k.conn.SetDeleteElements(k.sets["front4"], []nftables.SetElement{{Key: front4}}),
				k.conn.SetAddElements(k.sets["front4"], []nftables.SetElement{{Key: front4, VerdictData: &expr.Verdict{Kind: expr.VerdictAccept}}}))
		},
		"a foreign element": func(_ *testing.T, k *kernelTable) error {
			return k.conn.SetAddElements(k.sets["front4"], []nftables.SetElement{{Key: frontendKey(tcp("192.0.2.1:22")), VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: rules.Withhold}}})
		},
		"sources": func(_ *testing.T, k *kernelTable) error {
			k.conn.FlushSet(k.sets["allowed4"])
			return nil
		},
		"the ranges of a list": func(t *testing.T, k *kernelTable) error {
			k.conn.FlushSet(listIn(t, k))
			return nil
		},
		"a foreign range": func(t *testing.T, k *kernelTable) error {
			return k.conn.SetAddElements(listIn(t, k), rangeElements(netip.MustParsePrefix("198.51.100.0/24")))
		},
		"the chain of a list": func(t *testing.T, k *kernelTable) error {
			l, _ := rules.ParseRanges(listIn(t, k).Name)
			k.conn.FlushChain(&nftables.Chain{Table: k.nft, Name: rules.ListName(l)})
			return nil
		},
		"ranges that no chain asks": func(_ *testing.T, k *kernelTable) error {
			return k.conn.AddSet(nft.NewSet(k.nft, rules.ListSet(plan.List{IPv6: true})), nil)
		},
		"ranges, remade": func(t *testing.T, k *kernelTable) error {
			set := listIn(t, k)
			l, _ := rules.ParseRanges(set.Name)
			k.conn.FlushChain(&nftables.Chain{Table: k.nft, Name: rules.ListName(l)})
			k.conn.DelSet(set)
			return k.conn.AddSet(&nftables.Set{Table: k.nft, Name: set.Name, KeyType: nftables.TypeInetService}, nil)
		},
		"pods": func(_ *testing.T, k *kernelTable) error {
			k.conn.FlushSet(k.sets["pods4"])
			return nil
		},
		"a chain that picks": func(_ *testing.T, k *kernelTable) error {
			k.conn.FlushChain(&nftables.Chain{Table: k.nft, Name: "pick4_1"})
			return nil
		},
		"a constant chain": func(_ *testing.T, k *kernelTable) error {
			k.conn.FlushChain(&nftables.Chain{Table: k.nft, Name: rules.KernelIn})
			return nil
		},
		"a foreign rule": func(_ *testing.T, k *kernelTable) error {
			k.conn.InsertRule(&nftables.Rule{Table: k.nft, Chain: &nftables.Chain{Table: k.nft, Name: rules.KernelIn}, Exprs: nft.Expressions(rules.Rule{rules.Accept})})
			return nil
		},
		"a foreign chain": func(_ *testing.T, k *kernelTable) error {
			k.conn.AddChain(&nftables.Chain{Table: k.nft, Name: "pick4_x"})
			return nil
		},
		"a foreign chain that a rule leads to": func(_ *testing.T, k *kernelTable) error {
			foreign := k.conn.AddChain(&nftables.Chain{Table: k.nft, Name: "foreign"})
			k.conn.AddRule(&nftables.Rule{Table: k.nft, Chain: &nftables.Chain{Table: k.nft, Name: rules.KernelIn}, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: foreign.Name}}})
			return nil
		},
		"a foreign chain that an element leads to": func(_ *testing.T, k *kernelTable) error {
			k.conn.AddChain(&nftables.Chain{Table: k.nft, Name: "foreign"})
			return k.conn.SetAddElements(k.sets["front4"], []nftables.SetElement{{Key: frontendKey(tcp("192.0.2.1:22")), VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: "foreign"}}})
		},
		"a memory that nobody writes into": func(_ *testing.T, k *kernelTable) error {
			return k.conn.AddSet(nft.NewSet(k.nft, rules.MemorySet(plan.Memory{ID: 6})), nil)
		},
		"a memory, remade": func(t *testing.T, k *kernelTable) error {
			found, err := k.found()
			must(t, err)
			p := picksAmong(found.Chains)
			i := slices.IndexFunc(p, func(p plan.Pick) bool { return p.Sticky > 0 })
			m, _ := p[i].Memory()
			set := nft.NewSet(k.nft, rules.MemorySet(m))
			k.conn.FlushChain(&nftables.Chain{Table: k.nft, Name: rules.PickName(p[i])})
			k.conn.DelSet(set)
			set.Size++
			return k.conn.AddSet(set, nil)
		},
		"a foreign set": func(_ *testing.T, k *kernelTable) error {
			return k.conn.AddSet(&nftables.Set{Table: k.nft, Name: "foreign", KeyType: nftables.TypeInetService}, nil)
		},
		"a set, remade": func(_ *testing.T, k *kernelTable) error {
			k.conn.FlushChain(&nftables.Chain{Table: k.nft, Name: "nearby4"})
			k.conn.DelSet(k.sets["near4"])
			return k.conn.AddSet(&nftables.Set{Table: k.nft, Name: "near4", KeyType: nftables.TypeInetService}, nil)
		},
	} {
		for _, provisional := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, provisional %v", name, provisional), func(t *testing.T) {
				t.Parallel()
				c := started(t, kernelConfig())
				changed := map[string][]plan.KernelFrontend{"default/web": example()}
				must(t, c.setKernel(changed, provisional))
				before := kernelState(t)
				k := newKernelTable(kernelConfig())
				must(t, harm(t, k))
				if name != "nothing" {
					must(t, k.conn.Flush())
				}
				repaired, err := c.Repair()
				must(t, err)
				adds := provisional && name == "a foreign element"
				if repaired != (name != "nothing" && !adds) {
					t.Errorf("repaired: %v", repaired)
				}
				if after := kernelState(t); !reflect.DeepEqual(after, before) && !adds {
					t.Errorf("after %d:\n%v\nbefore %d:\n%v", len(after), after, len(before), before)
				}
				if again, err := c.Repair(); again || err != nil {
					t.Errorf("a second time: %v, %v", again, err)
				}
			})
		}
	}
}

// A list that nothing leads to goes with the first whole view.
func TestAListThatNothingLeadsToGoes(t *testing.T) {
	t.Parallel()
	c := started(t, kernelConfig())
	changed := map[string][]plan.KernelFrontend{"default/web": example()}
	must(t, c.setKernel(changed, false))
	want, k := kernelState(t), newKernelTable(kernelConfig())
	must(t, errorsOf(k.layList(plan.List{}), k.fill(plan.Ranges{Of: podCIDRs[:1]}), k.conn.Flush()))
	if len(kernelState(t)) == len(want) {
		t.Fatal("it is not there")
	}
	if repaired, err := c.Repair(); !repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	if got := kernelState(t); !reflect.DeepEqual(got, want) {
		t.Errorf("%d elements and chains, want %d", len(got), len(want))
	}
}

func errorsOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// A restart takes nothing out of force; the last good state only adds; the first
// whole view is compared with what is there; and an agent that has the kernel
// path off leaves none.
func TestKernelRestart(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	l.put(t,
		plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, "b")},
		plan.KernelFrontend{Frontend: tcp("10.96.0.2:80"), Tiers: tiers(false, "b", "far")})
	must(t, l.EnvoyAbsent(true))
	expect := func(when string, want ...string) {
		t.Helper()
		for i, w := range want {
			to := fmt.Sprintf("10.96.0.%d:80", i+1)
			if got, _ := once(t, l.a, "", to); !strings.Contains(w, got) {
				t.Errorf("%s: %s is answered by %s, want %s", when, to, got, w)
			}
		}
	}
	next := func(cfg plan.Config) {
		l.Capture = starting(t, cfg, l.host)
	}
	next(kernelConfig())
	expect("restarted", "b", "b far", isRefused)
	if list, err := nft.ReadMap(rules.Name, rules.Absent); len(list) != 3 || err != nil {
		t.Errorf("what the agent said of Envoy was lost: %v %v", list, err)
	}
	must(t, l.setKernel(map[string][]plan.KernelFrontend{"third": {{Frontend: tcp("10.96.0.3:80"), Tiers: tiers(false, "far")}}}, true))
	expect("the last good state", "b", "b far", "far")
	must(t, l.setKernel(map[string][]plan.KernelFrontend{"second": {{Frontend: tcp("10.96.0.2:80"), Tiers: tiers(false, "far")}}}, false))
	expect("the first whole view", isRefused, "far", "far")
	must(t, l.setKernel(map[string][]plan.KernelFrontend{"third": nil}, false))
	expect("the next one", isRefused, "far", isRefused)
	for _, chain := range []string{"pick4_1", "pick4_2"} {
		if _, there := kernelState(t)[chain]; there != (chain == "pick4_1") {
			t.Errorf("chain %s is there: %v", chain, there)
		}
	}
	next(config())
	expect("off, and Envoy knows nothing yet", isRefused, "far", isRefused)
	apply(t, l.Capture, newCluster().view(), false)
	expect("off", isRefused, isRefused, isRefused)
	if state := kernelState(t); len(state) > 0 {
		t.Errorf("off, and there is %v", state)
	}
}

func TestKernelCleanup(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	before := everything(t)
	host := testHost(t)
	c := starting(t, kernelConfig(), host)
	must(t, c.setKernel(map[string][]plan.KernelFrontend{"web": example()}, false))
	must(t, Cleanup(t.Context(), config(), host)) // whoever cleans up need not know
	if after := everything(t); after != before {
		t.Errorf("after:\n%s\nbefore:\n%s", after, before)
	}
	must(t, c.Remove())
	must(t, c.Install(nil))
	must(t, c.setKernel(nil, false))
	if _, there := kernelState(t)["front4 "+fmt.Sprintf("%x", frontendKey(tcp("10.96.0.1:80")))]; !there {
		t.Error("installed again, and the view is not in force")
	}
	must(t, c.Remove())
}

// What an address serves as follows the ranges of pods, known late.
func TestKernelPodCIDRsLater(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	cfg.PodCIDRs = nil
	l := newKernelLab(t, cfg)
	l.serve(t, "far", l.far)
	l.put(t, plan.KernelFrontend{Frontend: tcp("10.96.0.1:80"), Tiers: tiers(false, "far")})
	source := func(port string) string {
		_, from := once(t, l.a, "10.244.0.5:"+port, "10.96.0.1:80")
		return from
	}
	if got := source("20000"); strings.HasPrefix(got, "10.244.") {
		t.Errorf("pods unknown, and the endpoint sees %s", got)
	}
	must(t, l.SetPodCIDRs(podCIDRs))
	if got := source("20001"); got != "10.244.0.5:20001" {
		t.Errorf("pods known, and the endpoint sees %s", got)
	}
}

// Somebody who writes all the time, into a table of their own, is not in the way
// of a look at ours, however many pieces it takes.
func TestKernelReadsWhileOthersWrite(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	all := map[string][]plan.KernelFrontend{}
	for i := range 300 {
		all[fmt.Sprint(i)] = benchService(i, 10, 0)
	}
	must(t, c.setKernel(all, false))
	stop, ended, wrote := make(chan struct{}), make(chan error), make(chan struct{})
	go func() {
		ended <- node.Do(func() error {
			conn := nft.New()
			theirs := &nftables.Table{Name: "theirs", Family: nftables.TableFamilyINet}
			for n := 0; ; n++ {
				conn.AddTable(theirs)
				conn.AddChain(&nftables.Chain{Table: theirs, Name: fmt.Sprint("chain", n)})
				if err := conn.Flush(); err != nil {
					return err
				}
				select {
				case <-stop:
					return nil
				case wrote <- struct{}{}:
				default:
				}
			}
		})
	}()
	<-wrote
	for range 5 {
		if repaired, err := c.kernel.compare(); repaired || err != nil {
			t.Errorf("repaired %v, %v", repaired, err)
		}
	}
	close(stop)
	must(t, <-ended)
}
