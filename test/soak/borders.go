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
	c := conn.AddChain(&nftables.Chain{Name: "forward", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter})
	for _, n := range u.Nodes {
		count := func(other string, to netip.Prefix, more ...expr.Any) {
			for _, from := range []netip.Prefix{netip.PrefixFrom(n.IP, 32), netip.PrefixFrom(n.IP6, 128), n.PodCIDR, n.PodCIDR6} {
				if from.Addr().Is4() != to.Addr().Is4() {
					continue
				}
				exprs := append(inPrefix(from, true), inPrefix(to, false)...)
				exprs = append(append(exprs, more...), &expr.Counter{})
				conn.AddRule(&nftables.Rule{Table: t, Chain: c, UserData: []byte(n.Name + " " + other), Exprs: exprs})
			}
		}
		for _, p := range []netip.Prefix{netlab.ServiceCIDR4, netlab.ServiceCIDR6} {
			count("", p)
		}
		for _, o := range nodes {
			if o.Unit != u {
				count(o.Name, o.PodCIDR, firstPacket()...)
				count(o.Name, o.PodCIDR6, firstPacket()...)
			}
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
	now := map[string]uint64{}
	for _, u := range b.units {
		conn, err := u.Router.NFT()
		if err != nil {
			return err
		}
		t := &nftables.Table{Name: borderTable, Family: nftables.TableFamilyINet}
		rules, err := conn.GetRules(t, &nftables.Chain{Name: "forward", Table: t})
		if err != nil {
			return fmt.Errorf("of unit %s: %w", u.Name, err)
		}
		for _, r := range rules {
			if c, ok := r.Exprs[len(r.Exprs)-1].(*expr.Counter); ok {
				now[string(r.UserData)] += c.Packets
			}
		}
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

// take looks once more and empties the list.
func (b *borders) take() ([]crossing, error) {
	err := b.look()
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list, err
}
