package kubeproxy

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// writing has somebody commit to nftables again and again, until the test ends: each commit
// tears all lists that are being told.
func writing(t *testing.T, n *testkit.Network, every time.Duration) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- n.Do(func() error {
			conn := nft.Open()
			defer conn.Close()
			for {
				table := conn.AddTable(&nftables.Table{Name: "others", Family: nftables.TableFamilyIPv4})
				conn.AddChain(&nftables.Chain{Name: "theirs", Table: table})
				conn.DelTable(table)
				if err := conn.Flush(); err != nil {
					return err
				}
				select {
				case <-time.After(every):
				case <-stop:
					return nil
				}
			}
		})
	}()
	t.Cleanup(func() {
		close(stop)
		must(t, <-ended)
	})
}

// proxied adds to saved rules of so many Services with so many endpoints, of which each
// is somewhat smaller than iptables writes it.
func proxied(t *testing.T, services, endpoints int) {
	t.Helper()
	run(t, saved, "iptables-nft-restore")
	conn, most, n := nft.Open(), 1000, 0
	defer conn.Close()
	nat := &nftables.Table{Name: "nat", Family: nftables.TableFamilyIPv4}
	flush := func(least int) {
		if n++; n >= least {
			must(t, conn.Flush())
			n = 0
		}
	}
	chain := func(name string, args ...any) *nftables.Chain {
		return conn.AddChain(&nftables.Chain{Name: fmt.Sprintf(name, args...), Table: nat})
	}
	rule := func(of *nftables.Chain, verdict *expr.Verdict) {
		var list []expr.Any
		for range 8 {
			list = append(list, &expr.Counter{})
		}
		conn.AddRule(&nftables.Rule{Table: nat, Chain: of, Exprs: append(list, verdict)})
		flush(most)
	}
	all := &nftables.Chain{Name: Chain, Table: nat}
	for s := range services {
		svc := chain("KUBE-SVC-%016d", s)
		rule(all, &expr.Verdict{Kind: expr.VerdictJump, Chain: svc.Name})
		for e := range endpoints {
			end := chain("KUBE-SEP-%016d", s*endpoints+e)
			rule(svc, &expr.Verdict{Kind: expr.VerdictJump, Chain: end.Name})
			rule(end, &expr.Verdict{Kind: expr.VerdictAccept})
		}
	}
	flush(0)
}

// Whoever writes beside it, what is there is found at once, of however many Services.
func TestLookBesideAWriter(t *testing.T) {
	needs(t, "iptables-nft-restore")
	n := testkit.NewNetwork(t)
	proxied(t, 5000, 0)
	writing(t, n, 20*time.Millisecond)
	for range 10 {
		wantRules(t, "beside a writer", "iptables", "ip")
	}
}

// Whoever writes beside it, all that is kube-proxy's goes.
func TestRemoveBesideAWriter(t *testing.T) {
	needs(t, "iptables-nft-restore", "iptables-nft-save")
	n := testkit.NewNetwork(t)
	proxied(t, 400, 10)
	writing(t, n, 50*time.Millisecond)
	must(t, Remove())
	wantRules(t, "removed", "", "")
	wantOthers(t)
}

// What takes the rules of many endpoints away holds none of them.
func TestRemoveHoldsNoRules(t *testing.T) {
	needs(t, "iptables-nft-restore")
	testkit.NewNetwork(t)
	const services, endpoints, most = 1000, 10, 8 << 20
	proxied(t, services, endpoints)
	peak := peakOf(t, func() { must(t, Remove()) })
	t.Logf("%d rules: %d KiB at most", services*(2*endpoints+1), peak>>10)
	if peak > most {
		t.Errorf("it held %d KiB, want %d at most", peak>>10, most>>10)
	}
	wantRules(t, "removed", "", "")
}

// peakOf is how much more is on the heap, at most, while something is done.
func peakOf(t *testing.T, do func()) uint64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // what is garbage is not held
	heap := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	runtime.GC()
	before, stop, ended := heap(), make(chan struct{}), make(chan uint64)
	go func() {
		most := before
		for {
			most = max(most, heap())
			select {
			case <-stop:
				ended <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	do()
	close(stop)
	return <-ended - before
}

// What somebody else removes at the same time is gone, and the rest goes all the same: a
// transaction is taken whole, or not at all.
func TestRemoveBesideARemover(t *testing.T) {
	needs(t, "iptables-nft-restore", "iptables-nft-save")
	n := testkit.NewNetwork(t)
	proxied(t, 200, 5)
	other := make(chan error, 1)
	go func() { other <- n.Do(Remove) }()
	must(t, Remove())
	must(t, <-other)
	wantRules(t, "removed", "", "")
	wantOthers(t)
}

// Chains of which one is not there do not count as removed.
func TestDropChainsOfWhichOneIsGone(t *testing.T) {
	needs(t, "iptables-nft-restore")
	testkit.NewNetwork(t)
	run(t, saved, "iptables-nft-restore")
	conn := nft.Open()
	defer conn.Close()
	nat := &nftables.Table{Name: "nat", Family: nftables.TableFamilyIPv4}
	err := dropChains(conn, nat, []string{"KUBE-GONE", "KUBE-NODEPORTS", "KUBE-PROXY-CANARY"})
	for _, name := range []string{"KUBE-NODEPORTS", "KUBE-PROXY-CANARY"} {
		if there, looked := conn.HasChain(nat, name); there && err == nil || looked != nil {
			t.Errorf("%s is there, and no error says so: %v", name, looked)
		}
	}
}
