package datapath

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// dropFrom lets a namespace drop what comes from an address, in silence.
func dropFrom(t *testing.T, ns *netlab.NS, from netip.Addr) {
	t.Helper()
	conn, err := ns.NFT()
	must(t, err)
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "deny"})
	c := conn.AddChain(&nftables.Chain{Table: table, Name: "input", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter})
	conn.AddRule(&nftables.Rule{Table: table, Chain: c, Exprs: []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: from.AsSlice()},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	must(t, conn.Flush())
}

// A pod that an endpoint's own firewall drops dials in a loop. Its failures
// eject the endpoint for everybody of its node; what that costs the others is
// bounded: no connection of theirs fails or waits for a connect timeout. A
// closed Service stays in its unit, and its last endpoint in use; where there is
// a next tier, that serves, out of the unit too (docs/adr/0014).
func TestAClientThatAnEndpointDrops(t *testing.T) {
	for what, tc := range map[string]struct {
		keys   string
		ends   []string // b-1 is no tier of a closed Service
		leaves bool     // its unit
	}{
		"two endpoints":                  {`["unit"]`, []string{"a-1", "a-2", "b-1"}, false},
		"one endpoint":                   {`["unit"]`, []string{"a-2", "b-1"}, false},
		"one endpoint, and another tier": {`["unit","*"]`, []string{"a-2", "b-1"}, true},
	} {
		t.Run(what, func(t *testing.T) {
			if !tc.leaves {
				leaks.None(t, w.lab, leaks.Any)
			}
			f := deploy(t, "blame", tc.keys)
			f.ends = nil
			for _, name := range tc.ends {
				f.ends = append(f.ends, backend{f.pods[name].IP, name})
			}
			w.state.service(f.service)
			must(t, w.state.write())
			node := named(t, "a-1")
			attacker, err := node.AddPod("blame-attacker")
			must(t, err)
			t.Cleanup(func() { must(t, attacker.Remove()) })
			other, err := node.AddPod("blame-other")
			must(t, err)
			t.Cleanup(func() { must(t, other.Remove()) })
			wait.Eventually(t, func() error {
				a, err := edge.Ask(attacker.NS, "tcp", f.at(0), time.Second)
				if err == nil && a.Name != "blame-a-2" {
					err = errors.New(a.Name)
				}
				return err
			})
			quiet := load.Start(t, []*netlab.NS{other.NS}, f.at(0))
			quiet.More(t, 100)
			usual := longest(quiet.Stop())

			dropFrom(t, f.pods["a-2"].NS, attacker.IP)
			stop := make(chan struct{})
			var attack sync.WaitGroup
			var failed int
			attack.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := edge.Ask(attacker.NS, "tcp", f.at(0), time.Second); err != nil {
						failed++
					}
				}
			})
			dials := load.Start(t, []*netlab.NS{other.NS, node.NS}, f.at(0))
			time.Sleep(8 * time.Second) // twice as long as an ejection, while the attack goes on
			dials.More(t, 20)
			list := dials.Stop()
			close(stop)
			attack.Wait()
			load.NoneFailed(t, "others", list)
			by := map[string]int{}
			for _, d := range list {
				by[d.Name]++
			}
			t.Logf("others: longest %s, %s before the attack; answered by %v; the attacker failed %d times", longest(list), usual, by, failed)
			if left := by["blame-b-1"] > 0; left != tc.leaves {
				t.Errorf("others were answered out of the unit: %v, want %v", left, tc.leaves)
			}
			// Less than a connect timeout; a busy machine may be late by itself.
			if slow := load.Slow(list, usual+250*time.Millisecond); len(slow)*100 > len(list) {
				t.Errorf("%d of %d connections of others waited, the longest %s", len(slow), len(list), longest(list))
			}
		})
	}
}

func longest(list []load.Dial) (most time.Duration) {
	for _, d := range list {
		most = max(most, d.Took)
	}
	return most
}
