package rules

import (
	"fmt"
	"net/netip"

	"github.com/gridmesh/gridmesh/topology"
)

// Term is one match or statement of a rule. Its String is what nft(8) calls it.
type Term interface {
	fmt.Stringer
	apply(*walker) outcome
}

// Matches on the packet.
type (
	// Is matches the IP version.
	Is struct{ Family Family }
	// L4 matches the transport protocol.
	L4 struct{ Protocol topology.Protocol }
	// Frontend looks destination, protocol and port up in a set.
	Frontend struct {
		Family Family
		Set    SetName
	}
	// Saddr looks the source address up in a set.
	Saddr struct {
		Family Family
		Set    SetName
	}
	// Daddr looks the destination address up in a set.
	Daddr struct {
		Family Family
		Set    SetName
	}
	// Pair looks source and destination up in a set, together.
	Pair struct {
		Family Family
		Set    SetName
	}
	// Dport matches the destination port; a protocol must have matched before.
	Dport struct{ Port uint16 }
	// FromBridge matches what came in over a bridge that pods hang on.
	FromBridge struct{}
	// TransparentSocket matches what a transparent socket of this node waits for.
	TransparentSocket struct{}
)

// Matches on the way that routing chose.
type (
	// Astray matches what the packet's mark leads away from this node: the rule
	// for marked packets is gone, or another one comes first. It holds for
	// packets that come in, and not over lo.
	Astray struct{}
	// Nexthop looks up the address that the packet is handed to next: its
	// destination, unless a gateway comes first.
	Nexthop struct {
		Family Family
		Set    SetName
	}
	// NotLo matches what leaves by any other interface than lo.
	NotLo struct{}
)

// Matches on marks and on the connection.
type (
	// Mark compares the packet's mark under a mask.
	Mark struct {
		Op          Op
		Value, Mask uint32
	}
	// CtMark compares the connection's mark under a mask.
	CtMark struct {
		Op          Op
		Value, Mask uint32
	}
	// Tracked matches what belongs to a connection that conntrack saw begin.
	Tracked struct{}
	// New matches what may begin a connection: nothing has answered it yet.
	New struct{}
	// Confirmed matches what belongs to a flow that conntrack has since an earlier packet: NAT chose for that one.
	Confirmed struct{}
	// Original matches what goes the way of the connection's first packet.
	Original struct{}
	// Reply matches what answers it.
	Reply struct{}
	// NotDNATed matches connections whose destination no NAT changed.
	NotDNATed struct{}
)

// Matches on the frame, for tables of family bridge.
type (
	// EtherType matches the IP version in the frame's header.
	EtherType struct{ Family Family }
	// NotTo matches frames to any other address.
	NotTo struct{ MAC MAC }
	// NotGroup matches frames that are neither broadcast nor multicast.
	NotGroup struct{}
	// SaddrIn matches the source address against a range.
	SaddrIn struct{ Prefix netip.Prefix }
	// DaddrIn matches the destination address against a range.
	DaddrIn struct{ Prefix netip.Prefix }
)

// Statements.
type (
	// SetMark sets the bits under the mask of the packet's mark.
	SetMark struct{ Value, Mask uint32 }
	// SetCtMark sets the bits under the mask of the connection's mark.
	SetCtMark struct{ Value, Mask uint32 }
	// TProxy gives the packet to the listener on a port of the loopback. Where
	// nobody listens it does not hold.
	TProxy struct {
		Family Family
		Port   uint16
	}
	// SetEtherDaddr writes the frame's destination.
	SetEtherDaddr struct{ MAC MAC }
	// SetToHost makes the frame this node's own, to be routed.
	SetToHost struct{}
	// Counter counts packets and bytes.
	Counter struct{}
)

// Statements that end the way through a chain.
type (
	// Jump goes through another chain, and on where that does not end.
	Jump struct{ Chain string }
	// RedirectTo is NAT to a port of the interface that the packet came in over.
	RedirectTo struct{ Port uint16 }
	// Verdict is an end without more to say.
	Verdict string
)

// The verdicts.
const (
	Accept          Verdict = "accept" // in this chain; other hooks still see it
	Drop            Verdict = "drop"
	Return          Verdict = "return" // to the chain that jumped here
	ResetTCP        Verdict = "reject with tcp reset"
	PortUnreachable Verdict = "reject with icmpx type port-unreachable"
	Masquerade      Verdict = "masquerade fully-random"
)

// Op is a comparison.
type Op string

// The comparisons.
const (
	Equal    Op = "=="
	NotEqual Op = "!="
)

func (f Family) keyword() string {
	if f == IPv6 {
		return "ip6"
	}
	return "ip"
}

// Loopback is where the capture's listeners of a family listen.
func (f Family) Loopback() netip.Addr {
	if f == IPv6 {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

func lookup(f Family, fields string, set SetName) string {
	return f.keyword() + " " + fields + " @" + set.For(f)
}

func (t Is) String() string { return "meta nfproto ipv" + string(t.Family) }
func (t L4) String() string { return "meta l4proto " + t.Protocol.String() }
func (t Frontend) String() string {
	return lookup(t.Family, "daddr . meta l4proto . th dport", t.Set)
}
func (t Saddr) String() string           { return lookup(t.Family, "saddr", t.Set) }
func (t Daddr) String() string           { return lookup(t.Family, "daddr", t.Set) }
func (t Pair) String() string            { return lookup(t.Family, "saddr . "+t.Family.keyword()+" daddr", t.Set) }
func (t Dport) String() string           { return fmt.Sprintf("th dport %d", t.Port) }
func (FromBridge) String() string        { return "iifname @" + Bridges }
func (TransparentSocket) String() string { return "socket transparent 1" }
func (Astray) String() string            { return "fib daddr . mark oif exists" }
func (t Nexthop) String() string {
	return "rt " + t.Family.keyword() + " nexthop @" + t.Set.For(t.Family)
}
func (NotLo) String() string { return "oif != lo" }

func (t Mark) String() string    { return masked("meta mark", t.Op, t.Value, t.Mask) }
func (t CtMark) String() string  { return masked("ct mark", t.Op, t.Value, t.Mask) }
func (Tracked) String() string   { return "ct state established,related" }
func (New) String() string       { return "ct state new" }
func (Confirmed) String() string { return "ct status confirmed" }
func (Original) String() string  { return "ct direction original" }
func (Reply) String() string     { return "ct direction reply" }
func (NotDNATed) String() string { return "ct status ! dnat" }

func (t EtherType) String() string { return "ether type " + t.Family.keyword() }
func (t NotTo) String() string     { return "ether daddr != " + t.MAC.String() }
func (NotGroup) String() string    { return "meta pkttype != broadcast meta pkttype != multicast" }
func (t SaddrIn) String() string {
	return FamilyOf(t.Prefix.Addr()).keyword() + " saddr " + t.Prefix.String()
}

func (t DaddrIn) String() string {
	return FamilyOf(t.Prefix.Addr()).keyword() + " daddr " + t.Prefix.String()
}

func (t SetMark) String() string   { return setMasked("meta mark", t.Value, t.Mask) }
func (t SetCtMark) String() string { return setMasked("ct mark", t.Value, t.Mask) }
func (t TProxy) String() string {
	return fmt.Sprintf("tproxy %s to %s", t.Family.keyword(), netip.AddrPortFrom(t.Family.Loopback(), t.Port))
}
func (t SetEtherDaddr) String() string { return "ether daddr set " + t.MAC.String() }
func (SetToHost) String() string       { return "meta pkttype set host" }
func (Counter) String() string         { return "counter" }
func (t Jump) String() string          { return "jump " + t.Chain }
func (t RedirectTo) String() string    { return fmt.Sprintf("redirect to :%d", t.Port) }
func (v Verdict) String() string       { return string(v) }

func masked(what string, op Op, value, mask uint32) string {
	return fmt.Sprintf("%s & %#x %s %#x", what, mask, op, value)
}

func setMasked(what string, value, mask uint32) string {
	return fmt.Sprintf("%s set %s & %#x | %#x", what, what, ^mask, value)
}
