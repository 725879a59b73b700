package capture

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// Bridge is a bridge that this node's pods hang on.
type Bridge struct {
	Name string
	MAC  net.HardwareAddr
	Pods []netip.Prefix
}

// podBridges finds the bridges with an address inside a pod CIDR.
func podBridges(cfg plan.Config) ([]Bridge, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var found []Bridge
	for _, l := range links {
		if l.Type() != "bridge" {
			continue
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", l.Attrs().Name, err)
		}
		var pods []netip.Prefix
		for _, a := range addrs {
			ip, _ := netip.AddrFromSlice(a.IP)
			for _, p := range cfg.PodCIDRs {
				if p.Contains(ip.Unmap()) && !slices.Contains(pods, p) {
					pods = append(pods, p)
				}
			}
		}
		if len(pods) > 0 {
			found = append(found, Bridge{l.Attrs().Name, l.Attrs().HardwareAddr, pods})
		}
	}
	return found, nil
}

// installBridge lifts TCP between pods of one bridge to layer 3. Without it
// the answer of a pod that was dialled with a kept source goes straight to
// the client over the bridge, which knows nothing of it and resets.
func installBridge(bridges []Bridge) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Name: TableName, Family: nftables.TableFamilyBridge}
	conn.AddTable(t)
	conn.DelTable(t)
	conn.AddTable(t)
	c := conn.AddChain(&nftables.Chain{
		Name: "lift", Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRef(-300),
	})
	for _, b := range bridges {
		for _, p := range b.Pods {
			conn.AddRule(&nftables.Rule{Table: t, Chain: c, Exprs: lift(b, p)})
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("install bridge rules: %w", err)
	}
	return nil
}

func lift(b Bridge, pods netip.Prefix) exprs {
	f, etherType := families[0], []byte{0x08, 0x00}
	if pods.Addr().Is6() {
		f, etherType = families[1], []byte{0x86, 0xdd}
	}
	mac := []byte(b.MAC)
	inPods := func(offset uint32) exprs {
		return exprs{
			f.load(offset, reg),
			&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: f.length, Mask: net.CIDRMask(pods.Bits(), int(f.length)*8), Xor: make([]byte, f.length)},
			&expr.Cmp{Register: reg, Op: expr.CmpOpEq, Data: pods.Masked().Addr().AsSlice()},
		}
	}
	return join(
		exprs{
			&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: reg},
			&expr.Cmp{Register: reg, Op: expr.CmpOpEq, Data: etherType},
			&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6},
			&expr.Cmp{Register: reg, Op: expr.CmpOpNeq, Data: mac},
			&expr.Meta{Key: expr.MetaKeyPKTTYPE, Register: reg},
			&expr.Cmp{Register: reg, Op: expr.CmpOpNeq, Data: []byte{unix.PACKET_BROADCAST}},
			&expr.Cmp{Register: reg, Op: expr.CmpOpNeq, Data: []byte{unix.PACKET_MULTICAST}},
		},
		l4proto(unix.IPPROTO_TCP), inPods(f.saddr), inPods(f.daddr),
		exprs{
			&expr.Immediate{Register: reg, Data: mac},
			&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: reg, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6},
			&expr.Immediate{Register: reg, Data: []byte{unix.PACKET_HOST}},
			&expr.Meta{Key: expr.MetaKeyPKTTYPE, SourceRegister: true, Register: reg},
			&expr.Counter{},
		})
}

func removeBridge() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyBridge)
	if err != nil {
		return fmt.Errorf("list bridge tables: %w", err)
	}
	for _, t := range tables {
		if t.Name == TableName {
			conn.DelTable(t)
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("remove bridge table: %w", err)
	}
	return nil
}
