package rules

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// Matches of the kernel path.
type (
	// Dispatch goes to the chain that a map has for destination, protocol and port.
	Dispatch struct {
		Family Family
		Map    SetName
	}
	// FrontendFrom looks destination, protocol, port and source up in a set.
	FrontendFrom struct {
		Family Family
		Set    SetName
	}
	// NotSaddr matches source addresses that are not in a set.
	NotSaddr struct {
		Family Family
		Set    SetName
	}
	// FromNode matches sources that are addresses of this node.
	FromNode struct{}
	// FromLo matches what came in over lo.
	FromLo struct{}
	// DNATed matches connections whose destination NAT changed.
	DNATed struct{}
	// InAbsent matches protocols of which Envoy gets no new connections.
	InAbsent struct{}
)

// Statements of the kernel path.
type (
	// Choose sends the connection to one of the frontend's endpoints at random.
	Choose struct {
		Family Family
		Pick   plan.Pick
	}
	// Remembered sends it to the endpoint that the client had last, while that is
	// one, and remembers it for as long again.
	Remembered struct {
		Family Family
		Pick   plan.Pick
	}
	// Remember forgets what the client had, chooses, and remembers. Where there
	// is no room for another client it does not hold.
	Remember struct {
		Family Family
		Pick   plan.Pick
	}
	// Unremembered is Choose for who found no room to be remembered, and counts whom it sends.
	Unremembered struct {
		Family Family
		Pick   plan.Pick
	}
	// Named matches packets that carry the name of an endpoint as their priority: what
	// Remembered and Remember looked up they can use again from nowhere else.
	Named struct{}
	// Unname has them carry none.
	Unname struct{}
)

// First is the number of the first slot of a Pick.
func First(p plan.Pick) uint32 {
	if p.Near {
		return plan.NearSlot
	}
	return 0
}

func frontendFields(f Family) string { return f.keyword() + " daddr . meta l4proto . th dport" }

func (t Dispatch) String() string { return frontendFields(t.Family) + " vmap @" + t.Map.For(t.Family) }

func (t FrontendFrom) String() string {
	return fmt.Sprintf("%s . %s saddr @%s", frontendFields(t.Family), t.Family.keyword(), t.Set.For(t.Family))
}

func (t NotSaddr) String() string {
	return t.Family.keyword() + " saddr != @" + t.Set.For(t.Family)
}
func (FromNode) String() string { return "fib saddr type local" }
func (FromLo) String() string   { return "iif lo" }
func (DNATed) String() string   { return "ct status dnat" }
func (InAbsent) String() string { return "meta l4proto @" + Absent }

// nft(8) prints what follows, and reads it where there is no numgen: that it does not
// know among the fields of a key.

func (t Choose) String() string {
	return fmt.Sprintf("dnat %s to %s . %s map @%s", t.Family.keyword(), frontendFields(t.Family), number(t.Pick), Slots.For(t.Family))
}

func (t Unremembered) String() string { return Counter{}.String() + " " + Choose(t).String() }

func number(p plan.Pick) string {
	text := fmt.Sprintf("numgen random mod %d", p.Among)
	if first := First(p); first > 0 {
		text += fmt.Sprintf(" offset %d", first)
	}
	return text
}

func (t Remembered) String() string {
	return fmt.Sprintf("meta priority set %s saddr map @%s %s", t.Family.keyword(), memoryOf(t.Pick), remembered(t.Family, t.Pick))
}

func (t Remember) String() string {
	return fmt.Sprintf("delete @%s { %s saddr : meta priority } meta priority set %s . %s map @%s %s",
		memoryOf(t.Pick), t.Family.keyword(), frontendFields(t.Family), number(t.Pick), Names.For(t.Family), remembered(t.Family, t.Pick))
}

// remembered keeps the name that is carried for the client, and leads to its endpoint.
func remembered(f Family, p plan.Pick) string {
	return fmt.Sprintf("update @%s { %s saddr timeout %ds : meta priority } dnat %s to %s . meta priority map @%s",
		memoryOf(p), f.keyword(), p.Sticky, f.keyword(), frontendFields(f), Ends.For(f))
}

func (Named) String() string {
	return fmt.Sprintf("meta priority & %#x == %#x", uint32(plan.NameMask), uint32(plan.NameBits))
}
func (Unname) String() string { return "meta priority set 0" }

func (t NotSaddr) apply(w *walker) outcome {
	in := slices.ContainsFunc(w.plan.Pods, func(p netip.Prefix) bool { return p.Contains(w.Packet.Src) })
	return when(w.is(t.Family) && !in)
}
func (FromNode) apply(w *walker) outcome { return when(w.Packet.Local) }
func (FromLo) apply(w *walker) outcome   { return when(w.looped) }
func (DNATed) apply(w *walker) outcome   { return when(w.redirected || w.Packet.DNATed) }
func (InAbsent) apply(w *walker) outcome { return when(w.Packet.Absent) }
func (Named) apply(w *walker) outcome    { return when(w.named) }

func (Unname) apply(w *walker) outcome {
	w.named = false
	return next
}
