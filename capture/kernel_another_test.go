package capture

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// ownKernelTable makes a table of the kernel path's name that is another's until
// the connection is closed.
func ownKernelTable(t *testing.T) *nl.Conn {
	t.Helper()
	theirs, err := nl.Dial(unix.NETLINK_NETFILTER, nil)
	must(t, err)
	batch, err := nft.Batch(nl.Message{Header: nl.Header{Type: nft.Message(unix.NFT_MSG_NEWTABLE), Flags: nl.Request | nl.Acknowledge | nl.Create}},
		nftables.TableFamilyINet, []nl.Attribute{text(unix.NFTA_TABLE_NAME, rules.KernelName), number(unix.NFTA_TABLE_FLAGS, nft.TableOwner)})
	must(t, err)
	_, err = theirs.SendMessages(batch)
	must(t, err)
	_, err = theirs.Receive()
	must(t, err)
	return theirs
}

// What the kernel path is to take over stays with Envoy until it has it, also
// where Repair writes meanwhile.
func TestWhatMovesIsServed(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	objects := newCluster().serve("web", "10.96.0.1", "10.244.0.6")
	apply(t, c, topology.See(objects.Build(), "n0", topology.Options{Datapath: topology.DatapathEnvoy}), false)
	moved := topology.See(objects.serve("other", "10.96.0.2", "10.244.0.6").Build(), "n0", topology.Options{Datapath: topology.DatapathKernel})
	serves := func(when string, want int) {
		t.Helper()
		if got := elements(t)["serve4"]; len(got) != want {
			t.Errorf("%s: Envoy has %v", when, got)
		}
	}
	c.table.conn.DelTable(c.kernel.table.nft)
	must(t, c.table.conn.Flush())
	theirs := ownKernelTable(t)
	defer theirs.Close()
	if err := c.Retract(moved, false); err == nil {
		t.Fatal("another's table was written")
	}
	serves("the kernel path does not take it", 1)
	if _, err := c.Repair(); err == nil || !c.Due() {
		t.Errorf("repaired: %v, due %v", err, c.Due())
	}
	serves("repaired without the kernel path", 1)
	must(t, theirs.Close())
	_, err := c.Repair()
	must(t, err)
	serves("and with it", 1)
	apply(t, c, moved, false)
	serves("the view again", 0)
	for _, to := range []string{"10.96.0.1:80", "10.96.0.2:80"} {
		if _, there := kernelState(t)["front4 "+fmt.Sprintf("%x", frontendKey(tcp(to)))]; !there {
			t.Errorf("the kernel path lacks %s", to)
		}
	}
}

// With the kernel path off a table of it that cannot be removed keeps no node from
// its guard, and has nothing else repaired in haste. RefreshBridges says who has it, and
// Repair removes one that can be.
func TestKernelTableOfAnother(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	theirs := ownKernelTable(t)
	defer theirs.Close()
	c := starting(t, config(), testHost(t))
	if len(elements(t)["guard4"]) == 0 || !routed(t, c.cfg, unix.AF_INET) {
		t.Error("nothing is guarded")
	}
	for range 2 {
		if repaired, err := c.Repair(); repaired || err != nil {
			t.Errorf("repaired %v, %v", repaired, err)
		}
		if _, err := c.RefreshBridges(); err == nil || !strings.Contains(err.Error(), rules.KernelName+" was made by another process") {
			t.Errorf("said is %v", err)
		}
		if list, err := c.Inspector()(); len(list) != 1 || list[0].Kind != KernelTable || !strings.Contains(list[0].Text, "stop that process") || err != nil {
			t.Errorf("found %v, %v", list, err)
		}
	}
	must(t, theirs.Close())
	if repaired, err := c.Repair(); repaired || err != nil {
		t.Errorf("its owner is gone, and so is it: repaired %v, %v", repaired, err)
	}
	if list, err := c.Inspector()(); len(list) > 0 || err != nil {
		t.Errorf("and found is %v, %v", list, err)
	}
	addChain(t, &nftables.Chain{Table: &nftables.Table{Name: rules.KernelName, Family: nftables.TableFamilyINet}, Name: "x"})
	if repaired, err := c.Repair(); !repaired || err != nil || len(kernelState(t)) > 0 {
		t.Errorf("one without an owner: repaired %v, %v, left %v", repaired, err, kernelState(t))
	}
}
