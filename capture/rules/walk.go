package rules

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// Packet is what is walked through the rules: the first one of a connection
// unless Tracked.
type Packet struct {
	Src      netip.Addr
	To       topology.Frontend // destination address, port and protocol
	Local    bool              // a process of this node sends it
	ToNode   bool              // To.Addr is an address of this node
	Bridged  bool              // it comes in over a bridge that pods hang on
	Mark     uint32
	Tracked  bool // conntrack saw its connection begin
	Again    bool // conntrack has its connection, which nobody has answered: it was sent before
	Reply    bool // it goes against the way of the connection's first packet
	CtMark   uint32
	Dest     MAC  // the frame's
	Group    bool // the frame is broadcast or multicast
	Awaited  bool // a transparent socket of this node waits for it
	NoListen bool // Envoy does not listen on the capture's ports
	DNATed   bool // NAT changed the destination of its connection
	Absent   bool // the agent says that Envoy is absent
	Astray   bool // the route of marked packets is missing, or others come first
	// Chosen is which of the endpoints the kernel path chooses, in their order.
	Chosen int
}

// Fate is what becomes of a packet.
type Fate string

// The fates.
const (
	ToEnvoy Fate = "envoy"  // delivered to a listener of Envoy
	ToEnd   Fate = "kernel" // translated to an endpoint by the kernel path
	Refused Fate = "refuse" // TCP reset or ICMP port unreachable
	Dropped Fate = "drop"   // no answer
	Passed  Fate = "pass"   // none of gridmesh's business
	ToHost  Fate = "host"   // a bridged frame that is routed instead
)

// Walk is the way of a packet.
type Walk struct {
	Fate     Fate
	Listener netip.AddrPort // of Envoy, that takes it
	Packet   Packet         // as the rules left it
	Met      []Met          // the rules of which every term held, in order
	Found    []string       // the sets and maps in which it was found, in order
	// Ends are those that the kernel path chooses from; Packet goes to the Chosen one.
	Ends []netip.AddrPort
	// Masqueraded: its source becomes an address of the node.
	Masqueraded bool
}

// Met is a rule that held.
type Met struct {
	Chain string
	Rule  Rule
}

// Walk leads a packet through the table while its sets hold what p says.
func (t *Table) Walk(p *plan.Plan, packet Packet) Walk { return t.WalkWith(p, nil, packet) }

// WalkWith leads it through that of the kernel path as well, while that holds what k
// says: at each hook the chains of both take turns. nil: there is none.
func (t *Table) WalkWith(p *plan.Plan, k *KernelState, packet Packet) Walk {
	w := &walker{tables: []*Table{t}, table: t, plan: p, kernel: k, Walk: Walk{Packet: packet}}
	if k != nil {
		w.tables = append(w.tables, k.table(t.cfg))
	}
	if t.Family == "bridge" {
		w.bridge()
	} else {
		w.inet()
	}
	return w.Walk
}

type walker struct {
	Walk
	tables     []*Table
	table      *Table // whose chain it is in
	plan       *plan.Plan
	kernel     *KernelState
	redirected bool
	looped     bool // it came in over lo
	refused    bool
	named      bool // it carries the name of an endpoint
	jumpTo     string
}

// outcome is what a term makes of a rule.
type outcome int

const (
	next     outcome = iota // on with the next term, rule or chain
	mismatch                // on with the next rule
	jumped                  // through jumpTo, then on with the next rule
	gone                    // through jumpTo, then back to the chain that jumped here
	returned                // back to the chain that jumped here
	accepted                // on with the next chain of the hook
	dropped                 // the end
)

func (w *walker) bridge() {
	w.Fate = Passed
	if w.hook(Prerouting) == dropped {
		w.Fate = Dropped
	}
}

// inet is the way of a packet through the kernel, as far as it matters here.
func (w *walker) inet() {
	points := []Point{Prerouting}
	if w.Packet.Local {
		points = []Point{Output, Postrouting}
	}
	for len(points) > 0 {
		at := points[0]
		points = points[1:]
		if w.hook(at) == dropped {
			w.Fate = Dropped
			if w.refused {
				w.Fate = Refused
			}
			return
		}
		switch {
		case at == Prerouting && w.delivered():
			points = []Point{Input}
		case at == Prerouting && w.Listener.IsValid():
			w.Fate = Dropped // the kernel forwards nothing that has a socket
			return
		case at == Prerouting:
			points = []Point{Forward, Postrouting}
		case at == Postrouting && w.Packet.Local && w.delivered(): // comes in again over lo
			w.Packet.Local, w.looped = false, true
			points = []Point{Prerouting}
		}
	}
	w.settle()
}

// settle says who takes a packet that nothing stopped.
func (w *walker) settle() {
	listens := !w.Packet.NoListen
	switch {
	case w.redirected && !listens:
		w.Fate = Refused // by the kernel: the port is closed
	case w.Listener.IsValid():
		w.Fate = ToEnvoy
	case len(w.Ends) > 0:
		w.Fate = ToEnd
	case w.delivered() && w.Packet.Awaited:
		w.Fate, w.Listener = ToEnvoy, w.Packet.To.AddrPort()
	default:
		w.Fate = Passed
	}
}

// delivered reports whether the packet's route leads to this node itself.
func (w *walker) delivered() bool {
	return w.redirected || w.Packet.ToNode || w.marked() && !w.Packet.Astray
}

// marked reports whether the packet carries the mark of what is captured.
func (w *walker) marked() bool {
	cfg := w.table.cfg
	return cfg.Mask != 0 && w.Packet.Mark&cfg.Mask == cfg.Mark
}

// hook leads the packet through the base chains of a hook.
func (w *walker) hook(at Point) outcome {
	type base struct {
		*Chain
		of *Table
	}
	var chains []base
	for _, t := range w.tables {
		for i := range t.Chains {
			c := &t.Chains[i]
			if c.Hook == nil || c.Hook.Point != at || c.Hook.Type == NAT && (w.Packet.Tracked || w.Packet.Again) {
				continue
			}
			chains = append(chains, base{c, t})
		}
	}
	slices.SortStableFunc(chains, func(a, b base) int { return a.Hook.Priority - b.Hook.Priority })
	for _, c := range chains {
		if w.table = c.of; w.through(c.Chain) == dropped {
			return dropped
		}
	}
	return accepted
}

func (w *walker) through(c *Chain) outcome {
	for _, r := range c.Rules {
		end := w.try(r)
		if end == mismatch {
			continue
		}
		w.Met = append(w.Met, Met{c.Name, r})
		switch end {
		case jumped:
			if end := w.through(w.table.chain(w.jumpTo)); end != next {
				return end
			}
		case gone:
			return w.through(w.table.chain(w.jumpTo))
		case returned:
			return next
		case accepted, dropped:
			return end
		}
	}
	return next
}

func (w *walker) try(r Rule) outcome {
	for _, t := range r {
		if end := t.apply(w); end != next {
			return end
		}
	}
	return next
}
