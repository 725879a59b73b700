package firewall

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"

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
	w := &walk{Packet: p, chains: rules, altered: map[uint32]bool{}, elements: once(func(set string) ([]nft.Element, error) {
		return conn.ElementsUpTo(&nftables.Set{Table: chain.Table, Name: set}, mostElements)
	})}
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

// mostElements bounds what is read of a set, and mostSets how many are read: of what is not
// read nobody knows what is in it. Lists of whom to refuse have hundreds of thousands.
const (
	mostElements = 4096
	mostSets     = 256
)

// once reads each set once, and no more than mostSets.
func once(read func(set string) ([]nft.Element, error)) func(set string) ([]nft.Element, error) {
	type answer struct {
		list []nft.Element
		err  error
	}
	known := map[string]answer{}
	return func(set string) ([]nft.Element, error) {
		a, ok := known[set]
		switch {
		case ok:
		case len(known) == mostSets:
			return nil, nft.ErrMany
		default:
			a.list, a.err = read(set)
			known[set] = a
		}
		return slices.Clone(a.list), a.err // who asks sorts it
	}
}

// walk goes through rules as such a packet does. What may let it in, does: a firewall
// is told of where it is sure to refuse.
type walk struct {
	Packet
	chains   map[string][][]nft.Expression
	elements func(set string) ([]nft.Element, error)
	altered  map[uint32]bool // by a rule that may have been about the packet: what is loaded by meta
	steps    int
}

func (w *walk) chain(name string) fate {
	left := false // it may have left the chain by now
	for _, rule := range w.chains[name] {
		if w.steps++; w.steps > mostSteps {
			return mayPass
		}
		holds, may := w.rule(rule)
		for _, v := range may {
			f := w.follow(v)
			switch leaves := f == isRefused || v.code == leads || v.code == returns; {
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
	}
	return goesOn
}

// follow is what becomes of a packet that has met a verdict.
func (w *walk) follow(v verdict) fate {
	switch v.code {
	case drops:
		return isRefused
	case jumps, leads:
		return w.chain(v.to)
	case returns, continues:
		return goesOn
	}
	return mayPass
}
