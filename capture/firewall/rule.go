package firewall

import (
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// verdict is what a rule decides, and the chain that it leads to.
type verdict struct {
	code int32
	to   string
}

// The codes of verdicts, in the kernel's numbers (linux/netfilter.h, nf_tables.h).
const (
	drops, accepts              = 0, 1
	jumps, leads, returns       = -3, -4, -5
	continues             int32 = -1
)

// reading is a rule that is read up to one of its expressions.
type reading struct {
	*walk
	regs registers
	may  []verdict
	over bool // something has decided, or may have: what is behind it is not for all
}

// rule says whether a rule is about such a packet, and what it may decide then: one of
// several things where a map decides.
func (w *walk) rule(list []nft.Expression) (holds certain, may []verdict) {
	r := reading{walk: w, regs: registers{}}
	holds = always
	for _, e := range list {
		if holds = min(holds, r.take(e)); holds == never {
			return never, nil
		}
		if r.over {
			break
		}
	}
	if len(r.may) > 1 {
		holds = maybe
	}
	return holds, r.may
}

func (r *reading) decides(code int32) { r.may = []verdict{{code: code}} }

// take reads an expression: whether the rule goes on behind it.
func (r *reading) take(e nft.Expression) certain {
	if code, chain, ok := e.Verdict(); ok {
		r.may = []verdict{{code, chain}}
		return always
	}
	switch e.Name {
	case "cmp":
		return r.compare(r.regs.at(e.Number(unix.NFTA_CMP_SREG)), e.Number(unix.NFTA_CMP_OP), e.Value(unix.NFTA_CMP_DATA))
	case "lookup":
		return r.lookup(e)
	case "range":
		if r.regs.at(e.Number(unix.NFTA_RANGE_SREG)).what == port && e.Number(unix.NFTA_RANGE_OP) == unix.NFT_RANGE_EQ &&
			!allPorts(portOf(e.Value(unix.NFTA_RANGE_FROM_DATA)), portOf(e.Value(unix.NFTA_RANGE_TO_DATA))) {
			return never
		}
	case "match":
		return r.match(e)
	case "reject":
		r.decides(drops)
		return always
	case "target":
		return r.target(e)
	case "objref":
		if e.Number(unix.NFTA_OBJREF_IMM_TYPE) == unix.NFT_OBJECT_COUNTER {
			return always
		}
	case "limit", "quota", "connlimit", "dynset":
	case "counter", "log", "last", "notrack", "dup":
		return always
	default:
		return r.load(e)
	}
	return maybe
}

// load reads an expression that loads something of the packet, or alters it.
func (r *reading) load(e nft.Expression) certain {
	switch e.Name {
	case "immediate":
		r.regs.put(e.Number(unix.NFTA_IMMEDIATE_DREG), register{known, e.Value(unix.NFTA_IMMEDIATE_DATA)})
	case "meta":
		if len(e.Bytes(unix.NFTA_META_SREG)) > 0 {
			r.altered[e.Number(unix.NFTA_META_KEY)] = true
			return always
		}
		r.regs.put(e.Number(unix.NFTA_META_DREG), r.meta(e.Number(unix.NFTA_META_KEY)))
	case "ct":
		r.regs.put(e.Number(unix.NFTA_CT_DREG), r.ct(e.Number(unix.NFTA_CT_KEY)))
	case "payload":
		r.regs.put(e.Number(unix.NFTA_PAYLOAD_DREG), r.payload(e))
	case "bitwise":
		r.regs.put(e.Number(unix.NFTA_BITWISE_DREG), r.regs.at(e.Number(unix.NFTA_BITWISE_SREG)).masked(e))
	case "fib":
		r.regs.put(e.Number(unix.NFTA_FIB_DREG), r.fib(e))
	case "byteorder", "exthdr", "hash", "inner", "numgen", "osf", "rt", "socket", "tunnel", "xfrm": // who knows what, and where to
		clear(r.regs)
		return maybe
	default: // queue, say, or what a later kernel has
		r.decides(accepts)
		r.over = true
		return maybe
	}
	return always
}
