package capture

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// After a flush every Service is served by its first endpoint before any has another: with
// ten of each that is a sixth of what is written. Those that remember clients come whole.
func TestFlushedServicesServeByTheirFirstEndpoint(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	const plain, kept = 20, 3
	all := map[string][]plan.KernelFrontend{}
	for i := range plain + kept {
		name := fmt.Sprint(i)
		if all[name] = benchService(i, 3, 0); i >= plain {
			sticky(name, time.Hour, all[name])
		}
	}
	must(t, c.setKernel(all, false))
	want := kernelState(t)
	other := newKernelTable(kernelConfig())
	other.conn.FlushRuleset()
	must(t, other.conn.Flush())
	events := watchWrites(t)
	if repaired, err := c.Repair(); !repaired || err != nil {
		t.Fatal(repaired, err)
	}
	if got := kernelState(t); !reflect.DeepEqual(got, want) {
		t.Errorf("after the repair\n%v\nbefore\n%v", got, want)
	}
	now, err := nft.New().Generation()
	must(t, err)
	fronts, slots := 0, 0
	must(t, events.SetReadDeadline(time.Now().Add(30*time.Second)))
	for seen := uint32(0); seen != now; {
		msgs, err := events.Receive()
		must(t, err)
		for _, m := range msgs {
			switch {
			case m.Header.Type == nft.Message(unix.NFT_MSG_NEWGEN):
				seen = generationOf(t, m)
				continue
			case m.Header.Type != nft.Message(unix.NFT_MSG_NEWSETELEM):
				continue
			}
			switch table, set := aboutWhat(t, m); {
			case table != rules.KernelName:
			case set == "front4":
				fronts += len(nft.ElementsOf(m))
			case set == "slots4":
				for _, e := range nft.ElementsOf(m) {
					number := binary.NativeEndian.Uint32(e.Key[len(e.Key)-4:])
					if slots++; number > 0 && fronts < plain {
						t.Fatalf("endpoint %d is written when %d frontends are served", number, fronts)
					}
				}
			}
		}
	}
	if fronts != plain+kept || slots != 3*fronts {
		t.Errorf("%d frontends and %d endpoints were told of: the test shows nothing", fronts, slots)
	}
}
