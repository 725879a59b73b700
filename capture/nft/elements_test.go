package nft

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// Others who write all the time elsewhere tear no set: what is walked is its own.
func TestASetIsReadWholeBesideOthers(t *testing.T) {
	n := testkit.NewNetwork(t)
	s := Open()
	defer s.Close()
	set := &nftables.Set{Name: "many", Table: s.AddTable(&nftables.Table{Name: rules.Name, Family: nftables.TableFamilyINet}), KeyType: nftables.TypeIPAddr}
	must(t, s.AddSet(set, nil))
	must(t, s.Flush())
	const many = 3000
	var list []nftables.SetElement
	for i := range uint32(many) {
		list = append(list, nftables.SetElement{Key: binary.BigEndian.AppendUint32(nil, 10<<24+i)})
	}
	for part := range slices.Chunk(list, 400) {
		must(t, s.SetAddElements(set, part))
		must(t, s.Flush())
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		_ = n.Do(func() error {
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
				_ = other.SetAddElements(theirs, []nftables.SetElement{{Key: key}})
				_ = other.Flush()
			}
		})
	})
	for range 30 {
		if found, err := s.Elements(set); len(found) != many || err != nil {
			t.Errorf("%d elements and %v", len(found), err)
		}
	}
	close(stop)
	wg.Wait()
}
