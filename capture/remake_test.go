package capture

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// inForce is a node that serves two Services, and the view that says so.
func inForce(t *testing.T) (*Capture, *cluster) {
	t.Helper()
	testkit.NewNetwork(t)
	addBridge(t, "cni0")
	c := starting(t, config(), testHost(t))
	k := newCluster().serve("web", "10.96.0.1", "10.244.0.5").serve("api", "fd00:96::2", "fd00:244::6")
	apply(t, c, k.view(), false)
	return c, k
}

// What an administrator saves and loads again at boot has sets that the kernel
// does not take for ours: nft(8) describes those of several fields otherwise.
func TestSavedRuleSetIsLoaded(t *testing.T) {
	t.Parallel()
	load := func(t *testing.T) {
		t.Helper()
		saved := nftCommand(t, "", "list", "ruleset")
		nftCommand(t, "flush ruleset\n"+saved, "-f", "-")
	}
	t.Run("then a start", func(t *testing.T) {
		t.Parallel()
		_, k := inForce(t)
		load(t)
		next := starting(t, config(), testHost(t))
		if !next.Found() || !serves(t, web) || !serves(t, "[fd00:96::2]:80") {
			t.Errorf("found %v; what was in force before the first view: %v", next.Found(), elements(t))
		}
		inKernel(t, rules.Inet(config()))
		apply(t, next, k.view(), false)
		whole(t, next)
	})
	t.Run("then a start that does not know the pods", func(t *testing.T) {
		t.Parallel()
		_, k := inForce(t)
		load(t)
		cfg := config()
		cfg.PodCIDRs = nil
		next := starting(t, cfg, testHost(t))
		must(t, next.SetPodCIDRs(podCIDRs))
		apply(t, next, k.view(), false)
		whole(t, next)
	})
	t.Run("beside an agent", func(t *testing.T) {
		t.Parallel()
		c, _ := inForce(t)
		before := elements(t)
		load(t)
		if repaired, err := c.Repair(); !repaired || err != nil {
			t.Errorf("repaired %v, %v", repaired, err)
		}
		if after := elements(t); !reflect.DeepEqual(after, before) {
			t.Errorf("sets after: %v, before: %v", after, before)
		}
		whole(t, c)
	})
}

// Whatever somebody made of our table, it is ours again, and at once.
func TestTableOfAnotherShapeIsRemade(t *testing.T) {
	t.Parallel()
	table := &nftables.Table{Name: rules.Name, Family: nftables.TableFamilyINet}
	without := func(conn *nft.Session, set string) { // what refers to a set goes with it
		chains, _ := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
		for _, c := range chains {
			if c.Table.Name == rules.Name {
				conn.FlushChain(c)
			}
		}
		conn.DelSet(&nftables.Set{Table: table, Name: set})
	}
	for name, harm := range map[string]func(t *testing.T, conn *nft.Session){
		"a set of another type": func(t *testing.T, conn *nft.Session) {
			without(conn, "serve4")
			set := &nftables.Set{Table: table, Name: "serve4", KeyType: nftables.TypeInetService}
			must(t, conn.AddSet(set, []nftables.SetElement{{Key: []byte{0, 80}}}))
		},
		"a guard without ranges": func(t *testing.T, conn *nft.Session) {
			without(conn, "guard4")
			set := &nftables.Set{Table: table, Name: "guard4", KeyType: nftables.TypeIPAddr}
			must(t, conn.AddSet(set, []nftables.SetElement{{Key: []byte{1, 2, 3, 4}}}))
		},
		"a set that no rule names": func(t *testing.T, conn *nft.Session) {
			conn.DelSet(&nftables.Set{Table: table, Name: rules.Bridges})
			must(t, conn.AddSet(&nftables.Set{Table: table, Name: rules.Bridges, KeyType: nftables.TypeMark}, nil))
		},
		"somebody's set": func(t *testing.T, conn *nft.Session) {
			must(t, conn.AddSet(&nftables.Set{Table: table, Name: "somebody", KeyType: nftables.TypeInetService}, nil))
		},
		"a set of a type that nobody here knows": func(t *testing.T, conn *nft.Session) {
			unknown := nftables.SetDatatype{Name: "of another nft", Bytes: 4}
			unknown.SetNFTMagic(61)
			must(t, conn.AddSet(&nftables.Set{Table: table, Name: "somebody", KeyType: unknown}, nil))
		},
		"a map of a type that nobody here knows": func(t *testing.T, conn *nft.Session) {
			unknown := nftables.SetDatatype{Name: "of another nft", Bytes: 8}
			unknown.SetNFTMagic(61<<nftables.SetConcatTypeBits | 62)
			must(t, conn.AddSet(&nftables.Set{Table: table, Name: "somebody", IsMap: true, KeyType: unknown, DataType: nftables.TypeMark}, nil))
		},
		"a chain at another place": func(t *testing.T, conn *nft.Session) {
			chain := &nftables.Chain{Table: table, Name: rules.GuardForward}
			conn.FlushChain(chain)
			conn.DelChain(chain)
			conn.AddChain(&nftables.Chain{
				Table: table, Name: rules.GuardForward, Type: nftables.ChainTypeFilter,
				Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityRaw,
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, k := inForce(t)
			before := elements(t)
			other := nft.New()
			harm(t, other)
			must(t, other.Flush())
			if repaired, err := c.Repair(); !repaired || err != nil {
				t.Errorf("repaired %v, %v", repaired, err)
			}
			if after := elements(t); !reflect.DeepEqual(after, before) {
				t.Errorf("sets after: %v, before: %v", after, before)
			}
			whole(t, c)

			harm(t, other)
			must(t, other.Flush())
			next := starting(t, config(), testHost(t))
			if got := elements(t); len(got["guard4"]) != len(before["guard4"]) || !serves(t, "[fd00:96::2]:80") {
				t.Errorf("a start keeps of what it finds: %v", got)
			}
			apply(t, next, k.view(), false)
			whole(t, next)

			harm(t, other)
			must(t, other.Flush())
			cfg := config()
			cfg.PodCIDRs = nil // not known yet
			starting(t, cfg, testHost(t))
			if got := elements(t); len(got["guard4"]) != len(before["guard4"]) {
				t.Errorf("guarded: %v", got)
			}
		})
	}
}

// What one transaction cannot hold comes in the next ones, and behind the guard.
func TestManyElementsOfAnotherShape(t *testing.T) {
	t.Parallel()
	c, k := inForce(t)
	ip := netip.MustParseAddr("10.96.8.0")
	for range 2 * perTransaction {
		k.serve("many-"+ip.String(), ip.String(), "10.244.0.7")
		ip = ip.Next()
	}
	apply(t, c, k.view(), false)
	before := elements(t)
	saved := nftCommand(t, "", "list", "ruleset")
	nftCommand(t, "flush ruleset\n"+saved, "-f", "-")
	starting(t, config(), testHost(t))
	if after := elements(t); !reflect.DeepEqual(after, before) {
		t.Errorf("%d elements before, %d after", len(before["serve4"]), len(after["serve4"]))
	}
}

// whole reports rules that are not those of the capture, or not for long.
func whole(t *testing.T, c *Capture) {
	t.Helper()
	inKernel(t, rules.Inet(c.cfg))
	inKernel(t, rules.Bridge(c.bridges))
	found, err := c.table.conn.Table(c.table.nft.Family)
	must(t, err)
	if c.table.strange(found) || len(found.Sets) < len(c.table.sets) {
		t.Errorf("found: %+v", found)
	}
	if !serves(t, web) || !serves(t, "[fd00:96::2]:80") {
		t.Errorf("in force: %v", elements(t))
	}
	if again, err := c.Repair(); again || err != nil {
		t.Errorf("repaired again: %v, %v", again, err)
	}
}
