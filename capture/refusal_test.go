package capture

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
)

// remade counts how often tables of family inet go, until the function returned is called.
func remade(t *testing.T) func() int {
	t.Helper()
	conn, err := nl.Dial(unix.NETLINK_NETFILTER, &nl.Config{Groups: 1 << (nft.NotifyGroup - 1)})
	must(t, err)
	must(t, conn.SetReadBuffer(8<<20))
	return func() (n int) {
		t.Helper()
		end := nftables.Table{Name: "end", Family: nftables.TableFamilyINet}
		other, err := nftables.New()
		must(t, err)
		other.AddTable(&end)
		other.DelTable(&end)
		must(t, other.Flush())
		for {
			msgs, err := conn.Receive()
			must(t, err)
			for _, m := range msgs {
				if m.Header.Type != nft.Message(unix.NFT_MSG_DELTABLE) || m.Data[0] != byte(nftables.TableFamilyINet) { // that of bridges holds nothing else
					continue
				}
				attrs, err := nft.Attributes(m)
				must(t, err)
				for attrs.Next() {
					switch {
					case attrs.Type() != unix.NFTA_TABLE_NAME:
					case attrs.String() == "end":
						must(t, conn.Close())
						return n
					default:
						n++
					}
				}
			}
		}
	}
}

// cramp gives a session a socket that takes no large transaction, until an error.
func cramp(t *testing.T, s *nft.Session) {
	t.Helper()
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *nl.Conn) error { return c.SetWriteBuffer(1) }))
	must(t, err)
	must(t, s.CloseLasting())
	s.Conn = conn
}

// many serves as many Services as one transaction does not hold.
func many(k *cluster) *cluster {
	ip := netip.MustParseAddr("10.96.8.0")
	for range perTransaction + 500 {
		k.serve("many-"+ip.String(), ip.String(), "10.244.0.7")
		ip = ip.Next()
	}
	return k
}

// What lacks buffers is an error, and takes nothing out of force; the next
// attempt writes it.
func TestLackOfBuffersTakesNothingOutOfForce(t *testing.T) {
	t.Parallel()
	c, k := inForce(t)
	apply(t, c, many(k).view(), false)
	count := remade(t)
	fails := func(what string, do func() error) {
		t.Helper()
		cramp(t, c.table.conn)
		if err := do(); !errors.Is(err, unix.EMSGSIZE) {
			t.Errorf("%s: %v, want that the message is too long", what, err)
		}
	}
	for i := range 300 {
		k.serve(fmt.Sprint("more", i), fmt.Sprintf("10.96.%d.%d", 64+i/200, i%200), "10.244.0.7")
	}
	must(t, c.Retract(k.view(), false))
	c.pending = nil // as after a failure: it compares
	fails("a view", c.Extend)
	c.outdated = true
	fails("rules", func() error { _, err := c.Repair(); return err })
	before := len(elements(t)["serve4"])
	if before < perTransaction+500 {
		t.Errorf("in force: %d", before)
	}
	for range 2 {
		_, err := c.Repair()
		must(t, err)
	}
	if n := len(elements(t)["serve4"]); n != perTransaction+801 {
		t.Errorf("in force at last: %d", n)
	}
	if n := count(); n > 0 {
		t.Errorf("the table went %d times", n)
	}
}

// The kernel path's table holds nothing else when it is made anew.
func TestKernelLackOfBuffers(t *testing.T) {
	t.Parallel()
	c := started(t, kernelConfig())
	must(t, c.setKernel(map[string][]plan.KernelFrontend{"web": example()}, false))
	before := kernelState(t)
	all := map[string][]plan.KernelFrontend{}
	for i := range 100 {
		all[fmt.Sprint(i)] = benchService(i, 10, 0)
	}
	count := remade(t)
	for range 2 {
		cramp(t, c.kernel.table.conn)
		if err := c.setKernel(all, false); !errors.Is(err, unix.EMSGSIZE) {
			t.Errorf("%v, want that the message is too long", err)
		}
	}
	cramp(t, c.kernel.table.conn)
	if _, err := c.Repair(); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("Repair: %v, want that the message is too long", err)
	}
	after := kernelState(t)
	for name := range after {
		if _, was := before[name]; !was && strings.HasPrefix(name, "pick") {
			delete(after, name) // it is in force before what leads to it, and nothing does
		}
	}
	if !reflect.DeepEqual(after, before) {
		t.Errorf("%d elements and chains before, %d after", len(before), len(after))
	}
	repaired, err := c.Repair()
	if !repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	if n := count(); n > 0 {
		t.Errorf("the table went %d times", n)
	}
}

// Only what is in the table is a reason, and while that is no cure it is not
// done again and again.
func TestRemakesAreBounded(t *testing.T) {
	busy := refused(fmt.Errorf("write: %w", errors.Join(unix.EBUSY, unix.ENOENT)))
	for _, err := range []error{nil, unix.EBUSY, refused(nil), refused(unix.ENOBUFS), refused(unix.ENOMEM), refused(unix.EMFILE), refused(unix.EPERM), refused(errors.Join(unix.ENOENT, unix.ENOMEM))} {
		if (&remakes{}).due(err, time.Now()) {
			t.Errorf("made anew for %v", err)
		}
	}
	var r remakes
	now := time.Now()
	began, n := now, 0
	for now.Sub(began) < time.Hour {
		if r.due(fmt.Errorf("repair: %w", busy), now) {
			n++
		}
		now = now.Add(20 * time.Millisecond)
	}
	if n < 10 || n > 20 {
		t.Errorf("made anew %d times in an hour", n)
	}
	if r.cured(); !r.due(busy, now) {
		t.Error("after a cure nothing is made anew")
	}
}
