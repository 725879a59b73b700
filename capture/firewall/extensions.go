package firewall

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// Targets of iptables after which a packet goes on: with another mark, or as it was.
var (
	marking = []string{"CONNMARK", "HMARK", "MARK", "SET"}
	passive = []string{
		"AUDIT", "CHECKSUM", "CLASSIFY", "CONNSECMARK", "CT", "DSCP", "HL", "IDLETIMER", "LED", "LOG", "NFLOG",
		"NOTRACK", "RATEEST", "SECMARK", "TCPMSS", "TCPOPTSTRIP", "TEE", "TOS", "TRACE", "TTL", "ULOG",
	}
)

// target reads what an extension of iptables does with the packet.
func (r *reading) target(e nft.Expression) certain {
	switch name := e.Text(unix.NFTA_TARGET_NAME); {
	case name == "REJECT":
		r.decides(drops)
	case slices.Contains(marking, name):
		r.altered[unix.NFT_META_MARK] = true
	case !slices.Contains(passive, name): // NFQUEUE, say
		r.decides(accepts)
		r.over = true
	}
	return always
}

// match is whether an extension of iptables holds, by its struct in linux/netfilter.
func (w *walk) match(e nft.Expression) certain {
	info := e.Bytes(unix.NFTA_MATCH_INFO)
	sure := func(holds bool) certain {
		if holds {
			return always
		}
		return never
	}
	switch e.Text(unix.NFTA_MATCH_NAME) {
	case "comment":
		return always
	case "icmp", "icmp6", "sctp", "udp":
		return never
	case "multiport":
		return multiport(info)
	case "tcp":
		return tcp(info)
	case "mark": // xt_mark_mtinfo1
		if len(info) > 8 && !w.altered[unix.NFT_META_MARK] {
			return sure((w.Mark&binary.NativeEndian.Uint32(info[4:]) == binary.NativeEndian.Uint32(info)) == (info[8] == 0))
		}
	case "conntrack", "state": // xt_conntrack_mtinfo3
		const flagsAt, invertAt, statesAt, states, alias = 146, 148, 150, 1, 1 << 13
		if len(info) > statesAt+1 && binary.NativeEndian.Uint16(info[flagsAt:])&^alias == states {
			return sure(binary.NativeEndian.Uint16(info[statesAt:])&stateNew != 0 == (binary.NativeEndian.Uint16(info[invertAt:]) == 0))
		}
	}
	return maybe
}

// tcp is xt_tcp: ports from and to of the client, and of the Service, and what else.
func tcp(info []byte) certain {
	const invertAt, clientInverted, portInverted = 11, 1, 2
	if len(info) <= invertAt {
		return maybe
	}
	at := func(i int) uint16 { return binary.NativeEndian.Uint16(info[2*i:]) }
	if info[invertAt]&clientInverted == 0 && at(0) == at(1) || info[invertAt]&portInverted == 0 && !allPorts(at(2), at(3)) {
		return never
	}
	return maybe
}

// multiport is xt_multiport_v1: ports, of which some begin a range that the next one ends.
func multiport(info []byte) certain {
	const countAt, portsAt, rangesAt, invertAt, ofService = 1, 2, 32, 47, 1
	if len(info) <= invertAt || info[invertAt] != 0 || int(info[countAt]) > invertAt-rangesAt {
		return maybe
	}
	at := func(i int) uint16 { return binary.NativeEndian.Uint16(info[portsAt+2*i:]) }
	for i := range int(info[countAt]) - 1 {
		if info[rangesAt+i] != 0 && (info[0] != ofService || allPorts(at(i), at(i+1))) {
			return maybe
		}
	}
	return never
}

// allPorts reports whether a range of ports has all that a Service may have.
func allPorts(from, to uint16) bool { return from <= 1 && to == 0xffff }

// portOf is a port as packets have it; none where it is no port.
func portOf(b []byte) uint16 {
	if len(b) != 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}
