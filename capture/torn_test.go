package capture

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// While others write all the time what is to come is written, and what is to go
// is not forgotten: it goes once they have calmed down.
func TestTornElementsAreNotTakenForAll(t *testing.T) {
	n := testkit.NewNetwork(t)
	c := starting(t, config(), Host{StateDir: t.TempDir(), ProcSys: "/proc/sys"})
	const many = 3000
	k, ip := newCluster(), netip.MustParseAddr("10.96.1.0")
	for range many {
		k.serve("s-"+ip.String(), ip.String(), "10.244.0.7")
		ip = ip.Next()
	}
	apply(t, c, k.view(), false)
	served := func() int {
		have, _, err := c.table.read("serve4")
		must(t, err)
		return len(have["serve4"])
	}

	var wg sync.WaitGroup
	begun, stop := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		_ = n.Do(func() error {
			other := nft.Open()
			defer other.Close()
			theirs := &nftables.Set{Name: "theirs", Table: other.AddTable(&nftables.Table{Name: "theirs", Family: nftables.TableFamilyINet}), KeyType: nftables.TypeIPAddr}
			if err := other.AddSet(theirs, nil); err != nil {
				return err
			}
			close(begun)
			for i := uint32(0); ; i++ {
				select {
				case <-stop:
					return nil
				default:
				}
				// What goes is waited for; this is faster.
				key := binary.BigEndian.AppendUint32(nil, i)
				_ = other.SetAddElements(theirs, []nftables.SetElement{{Key: key}})
				_ = other.Flush()
			}
		})
	})
	next := newCluster().serve("new", "10.96.0.1", "10.244.0.5").view()
	<-begun
	var err error
	for range 20 {
		c.held = unsure // the next Extend compares
		must(t, c.Retract(next, false))
		if err = c.Extend(); err != nil {
			break
		}
		apply(t, c, k.view(), false) // it was told whole
	}
	close(stop)
	wg.Wait()
	if !errors.Is(err, dump.ErrTorn) || c.held != unsure {
		t.Fatalf("%v, held %v: want that it is torn", err, c.held)
	}
	if got := served(); got != many+1 {
		t.Errorf("%d frontends are served, want all that were and the new one: %d", got, many+1)
	}
	for again := true; again; {
		again, err = c.Repair()
		must(t, err)
	}
	if got := served(); got != 1 {
		t.Errorf("once it is calm %d frontends are served, want 1", got)
	}
}
