package links

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	nl "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

func put(t *testing.T, link netlink.Link, cidrs ...string) {
	t.Helper()
	for _, cidr := range cidrs {
		addr, err := netlink.ParseAddr(cidr)
		if err == nil {
			err = netlink.AddrAdd(link, addr)
		}
		if err != nil {
			t.Fatal(cidr, err)
		}
	}
}

func added(t *testing.T, name string) netlink.Link {
	t.Helper()
	if err := netlink.LinkAdd(bridge(name)); err != nil {
		t.Fatal(err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// Of one link the kernel tells its own addresses alone, of both families; of a link
// that is gone, none.
func TestAddresses(t *testing.T) {
	testkit.NewNetwork(t)
	one, two := added(t, "one"), added(t, "two")
	put(t, one, "192.0.2.1/24", "2001:db8::1/64")
	put(t, two, "192.0.2.9/24")
	peer, err := netlink.ParseAddr("198.51.100.1/32")
	if err != nil {
		t.Fatal(err)
	}
	peer.Peer = &net.IPNet{IP: net.IPv4(198, 51, 100, 2), Mask: net.CIDRMask(32, 32)}
	if err := netlink.AddrAdd(two, peer); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		index, told int
		want        string
	}{
		"one":  {one.Attrs().Index, 2, "[192.0.2.1 2001:db8::1]"},
		"two":  {two.Attrs().Index, 2, "[192.0.2.9 198.51.100.1]"},
		"all":  {0, 6, "[127.0.0.1 192.0.2.1 192.0.2.9 198.51.100.1 ::1 2001:db8::1]"},
		"gone": {999, 0, "[]"},
	} {
		list, err := Addresses(c.index)
		slices.SortFunc(list, netip.Addr.Compare)
		if fmt.Sprint(list) != c.want || err != nil {
			t.Errorf("%s: %v, %v, want %s", name, list, err, c.want)
		}
		told := 0
		_, _ = addresses(c.index, func(m nl.Message) ([]nl.Message, error) {
			conn, err := Dial()
			if err != nil {
				return nil, err
			}
			defer conn.Close()
			msgs, err := dump.Ask(conn, m)
			told += len(msgs)
			return msgs, err
		})
		if told != c.told {
			t.Errorf("%s: the kernel told of %d addresses, want %d", name, told, c.told)
		}
	}
}

// Addresses that come and go all the time: what was told of them is no list, and is
// not taken for one.
func TestTornAddressesAreAnError(t *testing.T) {
	n := testkit.NewNetwork(t)
	const many = 3000
	link := added(t, "one")
	for i := range many {
		put(t, link, fmt.Sprintf("10.%d.%d.1/32", i>>8, i&255))
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		_ = n.Do(func() error {
			addr, err := netlink.ParseAddr("192.0.2.1/32")
			if err != nil {
				return err
			}
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				_ = netlink.AddrAdd(link, addr)
				_ = netlink.AddrDel(link, addr)
			}
		})
	})
	var err error
	begun, reads := time.Now(), 0
	for err == nil && time.Since(begun) < time.Minute {
		_, err = Addresses(0)
		reads++
	}
	close(stop)
	wg.Wait()
	if !errors.Is(err, dump.ErrTorn) {
		t.Fatalf("%d reads: %v, want that one is torn", reads, err)
	}
	if list, err := Addresses(0); len(list) != many+2 || err != nil { // and lo's
		t.Errorf("once it is calm: %d addresses and %v", len(list), err)
	}
}

// Of a list that stays torn there is what was told, and that it is torn.
func TestWhatIsToldOfTornAddresses(t *testing.T) {
	told := func(family byte, ip netip.Addr) nl.Message {
		b := append([]byte{family, 32, 0, 0}, binary.NativeEndian.AppendUint32(nil, 7)...)
		attrs, err := nl.MarshalAttributes([]nl.Attribute{{Type: unix.IFA_LOCAL, Data: ip.AsSlice()}})
		if err != nil {
			t.Fatal(err)
		}
		return nl.Message{Data: append(b, attrs...)}
	}
	list, err := addresses(7, func(m nl.Message) ([]nl.Message, error) {
		if m.Data[0] == unix.AF_INET {
			return []nl.Message{told(unix.AF_INET, netip.MustParseAddr("192.0.2.1"))}, dump.ErrTorn
		}
		return []nl.Message{told(unix.AF_INET6, netip.MustParseAddr("2001:db8::1"))}, nil
	})
	if fmt.Sprint(list) != "[192.0.2.1 2001:db8::1]" || !errors.Is(err, dump.ErrTorn) {
		t.Errorf("%v, %v", list, err)
	}
}
