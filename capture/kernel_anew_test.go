package capture

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// After a flush every Service is served by its first endpoint before any has another: with
// ten of each that is a sixth of what is written. Those that remember clients come whole. While
// nothing but a last good state is known, it is so too, for what the run before left and what is new.
func TestFlushedServicesServeByTheirFirstEndpoint(t *testing.T) {
	t.Parallel()
	for name, provisional := range map[string]bool{"a whole view": false, "a last good state": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.NewNetwork(t)
			const plain, kept = 20, 3
			all := map[string][]plan.KernelFrontend{}
			for i := range plain + kept {
				name := fmt.Sprint(i)
				if all[name] = benchService(i, 3, 0); i >= plain {
					sticky(name, time.Hour, all[name])
				}
			}
			host := testHost(t)
			c := starting(t, kernelConfig(), host)
			must(t, c.setKernel(all, false))
			if provisional {
				c = starting(t, kernelConfig(), host)
				must(t, c.setKernel(all, true))
			}
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
			fronts, slots, early := writtenInOrder(t, events, plain)
			if fronts != plain+kept || slots != 3*fronts {
				t.Errorf("%d frontends and %d endpoints were told of: the test shows nothing", fronts, slots)
			}
			if early > 0 {
				t.Errorf("%d other endpoints are written before %d frontends are served", early, plain)
			}
			if again, err := c.Repair(); again || err != nil {
				t.Errorf("again: %v, %v", again, err)
			}
		})
	}
}

// writtenInOrder counts frontends and endpoints up to now, and the endpoints but the first ones that
// came before so many frontends.
func writtenInOrder(t *testing.T, events *nl.Conn, served int) (fronts, slots, early int) {
	t.Helper()
	now, err := nft.New().Generation()
	must(t, err)
	must(t, events.SetReadDeadline(time.Now().Add(30*time.Second)))
	for seen := uint32(0); seen != now; {
		msgs, err := events.Receive()
		must(t, err)
		for _, m := range msgs {
			switch m.Header.Type {
			case nft.Message(unix.NFT_MSG_NEWGEN):
				seen = generationOf(t, m)
			case nft.Message(unix.NFT_MSG_NEWSETELEM):
				table, set := aboutWhat(t, m)
				for _, e := range nft.ElementsOf(m) {
					switch {
					case table == rules.KernelName && set == "front4":
						fronts++
					case table == rules.KernelName && set == "slots4":
						slots++
						if binary.NativeEndian.Uint32(e.Key[len(e.Key)-4:]) > 0 && fronts < served {
							early++
						}
					}
				}
			}
		}
	}
	return fronts, slots, early
}
