package soak

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

const (
	borderTable = "soak"
	// What crosses a border, and marks.
	crossedChain, markedChain = "crossed", "marked"
	// lookEvery is how often the counters are read: what crosses is known to
	// have done so in that time.
	lookEvery = time.Second
)

// crossing is what crossed a border: packets from a node or its pods to a
// Service (other is ""), or first packets to another unit's node's pods.
type crossing struct {
	node, other string
	packets     uint64
	from, to    time.Time
}

func (c crossing) String() string {
	what := "packets to Service addresses"
	if c.other != "" {
		what = "first packets to pods of " + c.other
	}
	return fmt.Sprintf("%d %s crossed the border from %s between %s and %s", c.packets, what, c.node, c.from.Format("15:04:05.000"), c.to.Format("15:04:05.000"))
}

// borders counts, by node and other node, what crosses. The lab's own counters
// do so by unit alone.
type borders struct {
	units []*netlab.Unit
	mu    sync.Mutex
	last  map[string]uint64
	at    time.Time
	list  []crossing
}

// watchBorders installs the counters on the units' routers, and reads them
// from then on.
func (s *Soak) watchBorders() (*borders, error) {
	b := &borders{units: s.c.Lab.Units, last: map[string]uint64{}, at: time.Now()}
	for _, u := range b.units {
		if err := install(u, s.c.Lab.Nodes()); err != nil {
			return nil, err
		}
	}
	if err := b.look(); err != nil {
		return nil, err
	}
	go func() {
		for range time.Tick(lookEvery) { // as long as the sandbox
			if err := b.look(); err != nil {
				s.say("read the borders: %v", err)
			}
		}
	}()
	return b, nil
}

func install(u *netlab.Unit, nodes []*netlab.Node) error {
	conn, err := u.Router.NFT()
	if err != nil {
		return err
	}
	t := conn.AddTable(&nftables.Table{Name: borderTable, Family: nftables.TableFamilyINet})
	chain := func(name string, hook *nftables.ChainHook) *nftables.Chain {
		return conn.AddChain(&nftables.Chain{Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter})
	}
	// Marks are counted before there need be a route, and go no further.
	crossed, marked := chain(crossedChain, nftables.ChainHookForward), chain(markedChain, nftables.ChainHookPrerouting)
	for _, n := range u.Nodes {
		count := func(c *nftables.Chain, key string, to netip.Prefix, more ...expr.Any) {
			for _, from := range []netip.Prefix{netip.PrefixFrom(n.IP, 32), netip.PrefixFrom(n.IP6, 128), n.PodCIDR, n.PodCIDR6} {
				if from.Addr().Is4() != to.Addr().Is4() {
					continue
				}
				exprs := append(inPrefix(from, true), inPrefix(to, false)...)
				conn.AddRule(&nftables.Rule{Table: t, Chain: c, UserData: []byte(n.Name + " " + key), Exprs: append(exprs, more...)})
			}
		}
		for _, p := range []netip.Prefix{netlab.ServiceCIDR4, netlab.ServiceCIDR6} {
			count(crossed, "", p, &expr.Counter{})
		}
		for _, o := range nodes {
			if o.Unit != u {
				count(crossed, o.Name, o.PodCIDR, append(firstPacket(), &expr.Counter{})...)
				count(crossed, o.Name, o.PodCIDR6, append(firstPacket(), &expr.Counter{})...)
			}
		}
		for _, to := range append(marks(false), marks(true)...) {
			count(marked, to.String(), netip.PrefixFrom(to, to.BitLen()), &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})
		}
	}
	return conn.Flush()
}

// inPrefix matches the source or destination of a packet.
func inPrefix(p netip.Prefix, source bool) []expr.Any {
	proto, offset, size := byte(unix.NFPROTO_IPV4), uint32(16), uint32(4)
	if p.Addr().Is6() {
		proto, offset, size = unix.NFPROTO_IPV6, 24, 16
	}
	if source {
		offset -= size
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: []byte{proto}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: net.CIDRMask(p.Bits(), int(size)*8), Xor: make([]byte, size)},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: p.Masked().Addr().AsSlice()},
	}
}

// firstPacket matches the first packet of a connection.
func firstPacket() []expr.Any {
	return []expr.Any{
		&expr.Ct{Register: 1, Key: expr.CtKeySTATE},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW), Xor: binary.NativeEndian.AppendUint32(nil, 0)},
		&expr.Cmp{Register: 1, Op: expr.CmpOpNeq, Data: binary.NativeEndian.AppendUint32(nil, 0)},
	}
}

// look reads the counters and notes what grew.
func (b *borders) look() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, err := b.counted(crossedChain)
	if err != nil {
		return err
	}
	at := time.Now()
	for key, n := range now {
		if n > b.last[key] {
			node, other, _ := strings.Cut(key, " ")
			b.list = append(b.list, crossing{node, other, n - b.last[key], b.at, at})
		}
	}
	b.last, b.at = now, at
	return nil
}

// marks are how many of them have come, by markKey.
func (b *borders) marks() (map[string]uint64, error) { return b.counted(markedChain) }

// counted reads the counters of a chain on every border, by who is counted.
func (b *borders) counted(chain string) (map[string]uint64, error) {
	now := map[string]uint64{}
	for _, u := range b.units {
		conn, err := u.Router.NFT()
		if err != nil {
			return nil, err
		}
		t := &nftables.Table{Name: borderTable, Family: nftables.TableFamilyINet}
		rules, err := conn.GetRules(t, &nftables.Chain{Name: chain, Table: t})
		if err != nil {
			return nil, fmt.Errorf("read the border of unit %s: %w", u.Name, err)
		}
		for _, r := range rules {
			for _, e := range r.Exprs {
				if c, ok := e.(*expr.Counter); ok {
					now[string(r.UserData)] += c.Packets
				}
			}
		}
	}
	return now, nil
}

// take looks once more and empties the list.
func (b *borders) take() ([]crossing, error) {
	err := b.look()
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list, err
}
