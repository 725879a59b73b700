package datapath

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// silent has a namespace drop what answers a SYN: its own kernel would end what it has
// not begun.
func silent(t *testing.T, ns *netlab.NS) {
	t.Helper()
	c, err := ns.NFT()
	must(t, err)
	table := c.AddTable(&nftables.Table{Name: "silent", Family: nftables.TableFamilyIPv4})
	chain := c.AddChain(&nftables.Chain{Name: "input", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityRaw})
	const flags, synAck = 13, 0x12
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: flags, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{synAck}, Xor: []byte{0}},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: []byte{synAck}},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	must(t, c.Flush())
}

// syn is the first packet of a connection (RFC 9293, 3.1) with its IPv4 header.
func syn(from, to netip.AddrPort) []byte {
	src, dst := from.Addr().As4(), to.Addr().As4()
	p := make([]byte, 40)
	p[0], p[3], p[8], p[9] = 0x45, 40, 64, unix.IPPROTO_TCP // the kernel fills in its checksum
	copy(p[12:], src[:])
	copy(p[16:], dst[:])
	tcp := p[20:]
	binary.BigEndian.PutUint16(tcp, from.Port())
	binary.BigEndian.PutUint16(tcp[2:], to.Port())
	binary.BigEndian.PutUint32(tcp[4:], 7)
	tcp[12], tcp[13], tcp[14] = 5<<4, 2, 0x40
	sum := uint32(unix.IPPROTO_TCP) + 20
	for i := 12; i < len(p); i += 2 { // both addresses of the pseudo header, and all of TCP
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	for sum>>16 > 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(tcp[16:], ^uint16(sum))
	return p
}

// halfOpen sends SYNs from n ports of each address in turn, and nothing after them.
func halfOpen(ns *netlab.NS, from netip.Addr, n int, to ...netip.AddrPort) error {
	return ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for i := range n {
			dst := to[i%len(to)]
			port := uint16(2000 + i/len(to)%60000)
			if err := unix.Sendto(fd, syn(netip.AddrPortFrom(from, port), dst), 0, &unix.SockaddrInet4{Addr: dst.Addr().As4()}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Connections that a pod begins and leaves, by Envoy and by the kernel, cost others none.
func TestHalfOpenConnections(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	good, byEnvoy, byKernel := deploy(t, "calmest", `["unit"]`), deploy(t, "halfa", `["unit"]`), deploy(t, "halfb", "")
	good.served(t)
	e := named(t, "a-1")
	twoPaths(t, e)
	attacker := byEnvoy.pods[e.Name]
	byKernel.ends = []backend{{byKernel.pods[e.Name].IP, e.Name}} // what it sends stays on its node
	w.state.service(byKernel.service)
	must(t, w.state.write())
	silent(t, attacker.NS)
	end := beside(t, e, good, 100, 100)
	tracked := func() int {
		text, err := e.NS.ReadSysctl("net/netfilter/nf_conntrack_count")
		must(t, err)
		n, err := strconv.Atoi(text)
		must(t, err)
		return n
	}
	before, start, n := tracked(), time.Now(), asked(100_000)
	must(t, halfOpen(attacker.NS, attacker.IP, n, byEnvoy.at(0), byKernel.at(0)))
	after := tracked()
	t.Logf("%d connections are half open after %s; the kernel tracked %d, and tracks %d", n, time.Since(start).Round(time.Millisecond), before, after)
	if after < before+n*9/10 {
		t.Errorf("%d connections more are tracked, want %d", after-before, n)
	}
	end()
}
