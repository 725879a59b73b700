package netlab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Leaks counts what crossed a unit's border and should not have.
type Leaks struct {
	Service uint64 // packets still addressed to a Service CIDR
	Foreign uint64 // first packets of connections and sessions to another unit's pods
}

// count installs the counters on the unit's router.
func (u *Unit) count() error {
	conn, err := u.Router.NFT()
	if err != nil {
		return err
	}
	t := conn.AddTable(&nftables.Table{Name: "leaks", Family: nftables.TableFamilyINet})
	c := conn.AddChain(&nftables.Chain{Name: "forward", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter})
	add := func(tag string, parts ...[]expr.Any) {
		var all []expr.Any
		for _, p := range parts {
			all = append(all, p...)
		}
		conn.AddRule(&nftables.Rule{Table: t, Chain: c, UserData: []byte(tag), Exprs: append(all, &expr.Counter{})})
	}
	for _, p := range []netip.Prefix{ServiceCIDR4, ServiceCIDR6} {
		add("service", toPrefix(p))
	}
	for _, o := range u.lab.Units {
		for _, n := range o.Nodes {
			if o != u {
				add("foreign", toPrefix(n.PodCIDR), newState())
				add("foreign", toPrefix(n.PodCIDR6), newState())
			}
		}
	}
	return conn.Flush()
}

// Leaks reads the counters.
func (u *Unit) Leaks() (Leaks, error) {
	conn, err := u.Router.NFT()
	if err != nil {
		return Leaks{}, err
	}
	t := &nftables.Table{Name: "leaks", Family: nftables.TableFamilyINet}
	rules, err := conn.GetRules(t, &nftables.Chain{Name: "forward", Table: t})
	if err != nil {
		return Leaks{}, fmt.Errorf("read counters of unit %s: %w", u.Name, err)
	}
	var l Leaks
	for _, r := range rules {
		counter, ok := r.Exprs[len(r.Exprs)-1].(*expr.Counter)
		switch {
		case ok && string(r.UserData) == "service":
			l.Service += counter.Packets
		case ok && string(r.UserData) == "foreign":
			l.Foreign += counter.Packets
		}
	}
	return l, nil
}

// NFT opens nftables of the namespace.
func (n *NS) NFT() (*nftables.Conn, error) { return nftables.New(nftables.WithNetNSFd(int(n.fd))) }

func ifname(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func toPrefix(p netip.Prefix) []expr.Any {
	proto, offset, size := byte(unix.NFPROTO_IPV4), uint32(16), uint32(4)
	if p.Addr().Is6() {
		proto, offset, size = unix.NFPROTO_IPV6, 24, 16
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: []byte{proto}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: net.CIDRMask(p.Bits(), int(size)*8), Xor: make([]byte, size)},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: p.Masked().Addr().AsSlice()},
	}
}

// newState matches the first packet of a connection or session.
func newState() []expr.Any {
	return []expr.Any{
		&expr.Ct{Register: 1, Key: expr.CtKeySTATE},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW), Xor: binary.NativeEndian.AppendUint32(nil, 0)},
		&expr.Cmp{Register: 1, Op: expr.CmpOpNeq, Data: binary.NativeEndian.AppendUint32(nil, 0)},
	}
}
