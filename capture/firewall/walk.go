package firewall

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// Packet is what is known of the first packet of a pod's connection of TCP to a Service,
// as a firewall of others meets it in INPUT. Its port and where it goes may be any: what
// lets in some of them does not let in all.
type Packet struct {
	Mark       uint32
	Sources    []netip.Prefix // of pods; none where they are not known
	Redirected bool           // DNAT has led it here
}

// Equal reports whether two are the same.
func (p Packet) Equal(o Packet) bool {
	return p.Mark == o.Mark && p.Redirected == o.Redirected && slices.Equal(p.Sources, o.Sources)
}

// Refused reports whether a chain at the input hook is sure to refuse such a packet.
func (p Packet) Refused(conn *nft.Session, chain *nftables.Chain) (bool, error) {
	rules, err := conn.RulesOf(chain.Table)
	if err != nil {
		return false, err
	}
	w := &walk{Packet: p, chains: rules, elements: func(set string) ([]nft.Element, error) {
		return conn.Elements(&nftables.Set{Table: chain.Table, Name: set})
	}}
	f := w.chain(chain.Name)
	return f == isRefused || f == goesOn && chain.Policy != nil && *chain.Policy == nftables.ChainPolicyDrop, nil
}

// certain says of a condition whether it holds.
type certain int

const (
	never certain = iota
	maybe
	always
)

// fate is what becomes of a packet in a chain. What goes on, or is refused, goes on: it is
// refused for sure only where it is further on, too.
type fate int

const (
	goesOn fate = iota
	mayPass
	isRefused
)

// mostSteps bounds how many rules are gone through: chains may call each other.
const mostSteps = 10_000

// walk goes through rules as such a packet does. What may let it in, does: a firewall
// is told of where it is sure to refuse.
type walk struct {
	Packet
	chains   map[string][][]nft.Expression
	elements func(set string) ([]nft.Element, error)
	steps    int
}

func (w *walk) chain(name string) fate {
	left := false // it may have left the chain by now
	for _, rule := range w.chains[name] {
		if w.steps++; w.steps > mostSteps {
			return mayPass
		}
		holds, code, to := w.rule(rule)
		f := goesOn
		switch {
		case holds == never, code == continues:
			continue
		case code == accepts:
			return mayPass
		case code == drops:
			f = isRefused
		case code == jumps, code == leads:
			f = w.chain(to)
		}
		switch leaves := f == isRefused || code == leads || code == returns; {
		case f == mayPass:
			return mayPass
		case leaves && holds == maybe:
			left = left || f == goesOn
		case leaves && left: // refused here, or it goes on
			return goesOn
		case leaves:
			return f
		}
	}
	return goesOn
}

// What a rule decides, in the kernel's numbers (linux/netfilter.h, nf_tables.h).
const (
	drops, accepts              = 0, 1
	jumps, leads, returns       = -3, -4, -5
	continues             int32 = -1
)

// rule says whether a rule is about such a packet, and what it decides then.
func (w *walk) rule(list []nft.Expression) (holds certain, code int32, to string) {
	holds, code = always, continues
	regs := map[uint32]register{}
	for _, e := range list {
		c := always
		if verdict, chain, ok := e.Verdict(); ok {
			code, to = verdict, chain
			continue
		}
		switch e.Name {
		case "meta":
			regs[e.Number(unix.NFTA_META_DREG)] = w.meta(e.Number(unix.NFTA_META_KEY))
		case "ct":
			regs[e.Number(unix.NFTA_CT_DREG)] = w.ct(e.Number(unix.NFTA_CT_KEY))
		case "payload":
			regs[e.Number(unix.NFTA_PAYLOAD_DREG)] = payload(e)
		case "bitwise":
			regs[e.Number(unix.NFTA_BITWISE_DREG)] = regs[e.Number(unix.NFTA_BITWISE_SREG)].masked(e)
		case "cmp":
			c = w.compare(regs[e.Number(unix.NFTA_CMP_SREG)], e.Number(unix.NFTA_CMP_OP), e.Value(unix.NFTA_CMP_DATA))
		case "lookup":
			if c = w.among(regs[e.Number(unix.NFTA_LOOKUP_SREG)], e); e.Number(unix.NFTA_LOOKUP_DREG) == unix.NFT_REG_VERDICT && len(e.Bytes(unix.NFTA_LOOKUP_DREG)) > 0 {
				code = accepts // it may
			}
		case "range":
			if c = maybe; regs[e.Number(unix.NFTA_RANGE_SREG)].what == port && e.Number(unix.NFTA_RANGE_OP) == unix.NFT_RANGE_EQ {
				c = never
			}
		case "match":
			c = w.match(e)
		case "reject":
			code = drops
		case "target":
			if e.Text(unix.NFTA_TARGET_NAME) == "REJECT" {
				code = drops
			}
		case "counter", "log", "last":
		default:
			c = maybe
		}
		holds = min(holds, c)
	}
	return holds, code, to
}
