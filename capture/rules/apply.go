package rules

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

func when(holds bool) outcome {
	if holds {
		return next
	}
	return mismatch
}

func (w *walker) is(f Family) bool { return FamilyOf(w.Packet.To.Addr) == f }

// found notes that a packet of the family is in a set.
func (w *walker) found(f Family, set SetName, in bool) outcome {
	if in = in && w.is(f); in {
		w.Found = append(w.Found, set.For(f))
	}
	return when(in)
}

func (w *walker) within(f Family, set SetName, ip netip.Addr) outcome {
	elements := map[SetName][]netip.Prefix{Guard: w.plan.Guard, Pods: w.plan.Pods}[set]
	return w.found(f, set, slices.ContainsFunc(elements, func(p netip.Prefix) bool { return p.Contains(ip) }))
}

func (t Is) apply(w *walker) outcome { return when(w.is(t.Family)) }
func (t L4) apply(w *walker) outcome { return when(w.Packet.To.Protocol == t.Protocol) }

func (t Frontend) apply(w *walker) outcome {
	elements := map[SetName][]topology.Frontend{Serve: w.plan.Serve, Silent: w.plan.Silent}[t.Set]
	return w.found(t.Family, t.Set, slices.Contains(elements, w.Packet.To))
}

func (t Saddr) apply(w *walker) outcome { return w.within(t.Family, t.Set, w.Packet.Src) }
func (t Daddr) apply(w *walker) outcome { return w.within(t.Family, t.Set, w.Packet.To.Addr) }

func (t Pair) apply(w *walker) outcome {
	same := w.Packet.Src == w.Packet.To.Addr
	elements := map[SetName][]netip.Addr{Hairpin: w.plan.Hairpin, Loops: w.elements().Loops}[t.Set]
	return w.found(t.Family, t.Set, same && slices.Contains(elements, w.Packet.Src))
}
func (t Dport) apply(w *walker) outcome    { return when(w.Packet.To.Port == t.Port) }
func (FromBridge) apply(w *walker) outcome { return when(w.Packet.Bridged) }
func (Astray) apply(w *walker) outcome     { return when(w.marked() && w.Packet.Astray) }
func (NotLo) apply(w *walker) outcome      { return when(!w.delivered()) }

// The listener that tproxy chose is transparent too.
func (TransparentSocket) apply(w *walker) outcome {
	return when(w.Packet.Awaited || w.Listener.IsValid() && !w.redirected)
}

func (t Nexthop) apply(w *walker) outcome {
	if !w.delivered() {
		return mismatch // a gateway
	}
	return w.within(t.Family, t.Set, w.Packet.To.Addr)
}

func (t Mark) apply(w *walker) outcome    { return t.Op.compare(w.Packet.Mark&t.Mask, t.Value) }
func (t CtMark) apply(w *walker) outcome  { return t.Op.compare(w.Packet.CtMark&t.Mask, t.Value) }
func (Tracked) apply(w *walker) outcome   { return when(w.Packet.Tracked) }
func (New) apply(w *walker) outcome       { return when(!w.Packet.Tracked) }
func (Confirmed) apply(w *walker) outcome { return when(w.Packet.Tracked || w.Packet.Again) }
func (Original) apply(w *walker) outcome  { return when(!w.Packet.Reply) }
func (Reply) apply(w *walker) outcome     { return when(w.Packet.Reply) }
func (NotDNATed) apply(w *walker) outcome { return when(!w.redirected) }

func (o Op) compare(a, b uint32) outcome { return when(a == b == (o == Equal)) }

func (t EtherType) apply(w *walker) outcome { return when(w.is(t.Family)) }
func (t NotTo) apply(w *walker) outcome     { return when(w.Packet.Dest != t.MAC) }
func (NotGroup) apply(w *walker) outcome    { return when(!w.Packet.Group) }
func (t SaddrIn) apply(w *walker) outcome   { return when(t.Prefix.Contains(w.Packet.Src)) }
func (t DaddrIn) apply(w *walker) outcome   { return when(t.Prefix.Contains(w.Packet.To.Addr)) }

func (t SetMark) apply(w *walker) outcome {
	w.Packet.Mark = w.Packet.Mark&^t.Mask ^ t.Value
	return next
}

func (t SetCtMark) apply(w *walker) outcome {
	w.Packet.CtMark = w.Packet.CtMark&^t.Mask ^ t.Value
	return next
}

func (t TProxy) apply(w *walker) outcome {
	if w.Packet.NoListen {
		return mismatch
	}
	w.Listener = netip.AddrPortFrom(t.Family.Loopback(), t.Port)
	return next
}

func (t SetEtherDaddr) apply(w *walker) outcome {
	w.Packet.Dest = t.MAC
	return next
}

func (SetToHost) apply(w *walker) outcome {
	w.Fate = ToHost
	return next
}

func (Counter) apply(*walker) outcome { return next }

func (t Jump) apply(w *walker) outcome {
	w.jumpTo = t.Chain
	return jumped
}

func (t RedirectTo) apply(w *walker) outcome {
	here := netip.IPv4Unspecified()
	if w.is(IPv6) {
		here = netip.IPv6Unspecified()
	}
	w.redirected = true
	w.Packet.To.Addr, w.Packet.To.Port = here, t.Port
	w.Listener = w.Packet.To.AddrPort()
	return accepted
}

func (v Verdict) apply(w *walker) outcome {
	switch v {
	case Drop:
		return dropped
	case Return:
		return returned
	case Masquerade:
		w.Masqueraded = true
	case ResetTCP, PortUnreachable:
		w.refused = true
		return dropped
	}
	return accepted
}
