package nft

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// many is how many elements a large set has.
const many = 3000

// largeSet makes one.
func largeSet(t *testing.T, s *Session) *nftables.Set {
	t.Helper()
	set := &nftables.Set{Name: "many", Table: s.AddTable(&nftables.Table{Name: rules.Name, Family: nftables.TableFamilyINet}), KeyType: nftables.TypeIPAddr}
	must(t, s.AddSet(set, nil))
	must(t, s.Flush())
	var list []nftables.SetElement
	for i := range uint32(many) {
		list = append(list, nftables.SetElement{Key: binary.BigEndian.AppendUint32(nil, 10<<24+i)})
	}
	for part := range slices.Chunk(list, 400) {
		must(t, s.SetAddElements(set, part))
		must(t, s.Flush())
	}
	return set
}

// Others who write all the time elsewhere keep no set from being read whole: what
// is walked is its own.
func TestASetIsReadWholeBesideOthers(t *testing.T) {
	n := testkit.NewNetwork(t)
	s := Open()
	defer s.Close()
	set := largeSet(t, s)
	const often = 30
	var wg sync.WaitGroup
	var wrote atomic.Int64
	stop := make(chan struct{})
	wg.Go(func() {
		if err := n.Do(func() error {
			other := Open()
			defer other.Close()
			theirs := &nftables.Set{Name: "theirs", Table: other.AddTable(&nftables.Table{Name: "theirs", Family: nftables.TableFamilyINet}), KeyType: nftables.TypeIPAddr}
			if err := other.AddSet(theirs, nil); err != nil {
				return err
			}
			for i := uint32(0); ; i++ {
				select {
				case <-stop:
					return nil
				default:
				}
				// What goes is waited for; this is faster.
				key := binary.BigEndian.AppendUint32(nil, i)
				if err := other.SetAddElements(theirs, []nftables.SetElement{{Key: key}}); err != nil {
					return err
				}
				if err := other.Flush(); err != nil {
					return err
				}
				wrote.Add(1)
			}
		}); err != nil {
			t.Error(err)
		}
	})
	for reads, until := 0, time.Now().Add(time.Minute); reads < often || wrote.Load() < often && time.Now().Before(until); reads++ {
		if found, err := s.Elements(set); len(found) != many || err != nil {
			t.Errorf("%d elements and %v", len(found), err)
		}
	}
	close(stop)
	wg.Wait()
	if n := wrote.Load(); n < often {
		t.Errorf("the other one wrote %d times beside it, want %d at least", n, often)
	}
}

// Of a set that is too large not all is read, and what comes next on the session is.
func TestALargeSetIsNotReadWhole(t *testing.T) {
	testkit.NewNetwork(t)
	s := Open()
	defer s.Close()
	set := largeSet(t, s)
	if got, err := s.ElementsUpTo(set, 100); !errors.Is(err, ErrMany) || len(got) > 0 {
		t.Errorf("%d elements, %v", len(got), err)
	}
	if got, err := s.ElementsUpTo(set, many); err != nil || len(got) != many {
		t.Errorf("then %d elements, %v", len(got), err)
	}
}
