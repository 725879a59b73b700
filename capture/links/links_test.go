package links

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Namespaced(func() int {
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Println(err)
			return 1
		}
		return code
	})
}

func bridge(name string) *netlink.Bridge {
	la := netlink.NewLinkAttrs()
	la.Name = name
	return &netlink.Bridge{LinkAttrs: la}
}

// Links that come all the time: what was told of them is no list, and is not
// taken for one.
func TestTornListIsAnError(t *testing.T) {
	n := testkit.NewNetwork(t)
	const many = 200
	total := many
	for i := range many {
		if err := netlink.LinkAdd(bridge(fmt.Sprint("br", i))); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		_ = n.Do(func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				// A link that goes is waited for; this is faster.
				if netlink.LinkAdd(bridge(fmt.Sprint("br", total))) == nil {
					total++
				}
			}
		})
	})
	var err error
	begun, reads := time.Now(), 0
	for err == nil && time.Since(begun) < 4*time.Second {
		_, err = Read("")
		reads++
	}
	close(stop)
	wg.Wait()
	if !errors.Is(err, dump.ErrTorn) {
		t.Fatalf("%d reads: %v, want that one is torn", reads, err)
	}
	if list, err := Read("bridge"); len(list) != total || err != nil {
		t.Errorf("once it is calm: %d bridges and %v", len(list), err)
	}
}
