package rules

import (
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// Family is an IP version, or the suffix of what there is once for each.
type Family string

// The IP versions.
const (
	IPv4 Family = "4"
	IPv6 Family = "6"
)

// Families are both.
var Families = []Family{IPv4, IPv6}

// Sets. Those with a type here exist once a family: serve4 and serve6.
const (
	// Layout names the shape of the sets. A table of another layout is
	// replaced as a whole; one of this layout keeps its sets while the agent
	// restarts. Its element is written anew by every transaction.
	Layout = "layout-1"
	// Bridges are the names of the bridges that pods hang on.
	Bridges = "bridges"

	Serve   SetName = "serve"   // frontends that are handed to Envoy
	Silent  SetName = "silent"  // frontends that are dropped without an answer
	Hairpin SetName = "hairpin" // (endpoint, endpoint): a pod that may meet itself
	Guard   SetName = "guard"   // ranges of Services: what may not leave unserved
	Pods    SetName = "pods"    // ranges of this node's pods: sources that are kept
	Over    SetName = "over"    // clients that hold more connections than their share
)

// SetName is a set that exists once a family.
type SetName string

// For is the name of the set of a family.
func (s SetName) For(f Family) string { return string(s) + string(f) }

// Chains, in the order in which a packet meets them.
const (
	// Capture sees every packet that comes in, before any other NAT: what is
	// for a served frontend goes to Take.
	Capture = "capture"
	// Redirect sees what Capture left for it: connections from pods on a
	// bridge whose netfilter stays on. Only with plan.Config.KeepBridgeNetfilter.
	Redirect = "redirected" // nft(8) does not read "redirect" for a name
	// Divert sees every packet that comes in, after NAT: what belongs to a
	// connection that Envoy opened in a client's name is delivered here.
	Divert = "divert"
	// OwnPorts sees what is delivered to this node: the redirect's listeners
	// serve nobody who was not redirected. Only with KeepBridgeNetfilter.
	OwnPorts = "own_ports"
	// Local sees what processes of this node send: what is for a served
	// frontend is marked, routed to lo and meets Capture there.
	Local = "local"
	// GuardForward and GuardOutput see what leaves: whatever is still
	// addressed to a Service is refused.
	GuardForward = "guard_forward"
	GuardOutput  = "guard_output" // the host's own
	// GuardLast sees what is about to leave, however it came so far.
	GuardLast = "guard_last"
	// Hairpin sees what leaves Envoy: a pod that is its own endpoint would
	// take an answer with its own address for a martian.
	Hairpins = "hairpin"
	// Crowd refuses, and counts, what clients over their share try to open.
	Crowd = "crowd"
)

// take hands packets of a served frontend to Envoy's listeners.
func take(f Family) string { return "take" + string(f) }

// refuse says what a closed port would say.
func refuse(f Family) string { return "refuse" + string(f) }

// Inet is the table of both IP versions. It is constant for a configuration;
// what changes is the content of its sets.
func Inet(cfg plan.Config) *Table {
	t := &Table{Family: "inet", Name: Name, Sets: sets(cfg), cfg: cfg}
	t.Chains = []Chain{capture(cfg), divert(cfg), local(cfg), guardForward(), guardOutput(cfg), guardLast(), hairpin(cfg), crowd()}
	for _, f := range Families {
		t.Chains = append(t.Chains, taking(cfg, f), refusing(f))
	}
	if cfg.KeepBridgeNetfilter {
		t.Chains = append(t.Chains, redirect(cfg), ownPorts(cfg))
	}
	return t
}

func sets(cfg plan.Config) []Set {
	list := []Set{
		{Name: Layout, Type: []string{"inet_service"}},
		{Name: Bridges, Type: []string{"ifname"}},
	}
	for _, f := range Families {
		addr := "ipv" + string(f) + "_addr"
		frontend := []string{addr, "inet_proto", "inet_service"}
		list = append(list,
			Set{Name: Serve.For(f), Type: frontend},
			Set{Name: Silent.For(f), Type: frontend},
			Set{Name: Hairpin.For(f), Type: []string{addr, addr}},
			Set{Name: Guard.For(f), Type: []string{addr}, Interval: true},
			Set{Name: Pods.For(f), Type: []string{addr}, Interval: true},
			Set{Name: Over.For(f), Type: []string{addr}, Timeout: true})
	}
	list = append(list, switches(cfg)...)
	slices.SortFunc(list, func(a, b Set) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func capture(cfg plan.Config) Chain {
	c := Chain{Name: Capture, Hook: &Hook{Filter, Prerouting, -150}}
	// What Local marked has chosen before, and the kernel path would come too late for it.
	c.Rules = append(openFlows(cfg), passEnvoy(cfg, Mark{NotEqual, cfg.Mark, cfg.Mask})...)
	for _, f := range Families {
		c.Rules = append(c.Rules,
			Rule{Is{f}, Frontend{f, Serve}, Jump{take(f)}},
			// Open connections live on: left to Divert.
			Rule{Is{f}, L4{topology.TCP}, Tracked{}, Frontend{f, Silent}, Return},
			Rule{Is{f}, Frontend{f, Silent}, Counter{}, Drop})
	}
	return c
}

func taking(cfg plan.Config, f Family) Chain {
	c := Chain{Name: take(f), Rules: []Rule{{Is{f}, L4{topology.TCP}, New{}, Saddr{f, Over}, Jump{Crowd}}}}
	if cfg.KeepBridgeNetfilter {
		// There the bridge's own pass through prerouting drops the socket that
		// tproxy assigned: left to Redirect.
		c.Rules = append(c.Rules, Rule{L4{topology.TCP}, FromBridge{}, Return})
	}
	c.Rules = append(c.Rules,
		// Where the mark does not lead to this node the kernel would drop what
		// tproxy gave a socket, and the client would wait. The host's own, which
		// carry the mark already, are here because it does.
		append(Rule{Mark{NotEqual, cfg.Mark, cfg.Mask}, New{}, captured(cfg), Astray{}}, astray(cfg, f)...),
		Rule{Is{f}, L4{topology.TCP}, Saddr{f, Pods}, TProxy{f, cfg.Ports.Keep()}, captured(cfg), Accept},
		Rule{Is{f}, L4{topology.TCP}, TProxy{f, cfg.Ports.Plain()}, captured(cfg), Accept},
		Rule{L4{topology.UDP}, TransparentSocket{}, captured(cfg), Accept})
	c.Rules = append(c.Rules, nobodyListens(cfg, f)...)
	return c
}

func crowd() Chain {
	return Chain{Name: Crowd, Rules: []Rule{{L4{topology.TCP}, Counter{}, ResetTCP}}}
}

func refusing(f Family) Chain {
	return Chain{Name: refuse(f), Rules: []Rule{
		{L4{topology.TCP}, Counter{}, ResetTCP},
		{Counter{}, PortUnreachable},
	}}
}

func divert(cfg plan.Config) Chain {
	c := Chain{Name: Divert, Hook: &Hook{Filter, Prerouting, -90}, Rules: openFlows(cfg)}
	for _, f := range Families {
		c.Rules = append(c.Rules,
			// A UDP listener is transparent too, but what the capture does not
			// serve is not its business. Open TCP connections live on.
			Rule{Is{f}, L4{topology.UDP}, Daddr{f, Guard}, Return},
			// A pod may dial an endpoint itself from a port that Envoy used in its
			// name a minute ago: then the answers are the pod's, and not for the
			// socket that still waits (TIME-WAIT). What conntrack has forgotten
			// goes by the socket alone.
			Rule{Is{f}, Daddr{f, Pods}, Tracked{}, CtMark{NotEqual, cfg.Own(), cfg.Mask}, Return})
	}
	// Without a protocol match: ICMP errors of kept sources must come home
	// too, or path MTU discovery hangs.
	c.Rules = append(c.Rules, Rule{TransparentSocket{}, captured(cfg), Accept})
	// What Local sent here finds that Envoy has closed, or is gone.
	for _, f := range Families {
		c.Rules = append(c.Rules, Rule{Is{f}, L4{topology.TCP}, Mark{Equal, cfg.Mark, cfg.Mask}, Jump{refuse(f)}})
	}
	return c
}

func local(cfg plan.Config) Chain {
	c := Chain{Name: Local, Hook: &Hook{Reroute, Output, -150}, Rules: []Rule{
		{Mark{Equal, cfg.Own(), cfg.Mask}, SetCtMark{cfg.Own(), cfg.Mask}, Return}, // Envoy's
	}}
	c.Rules = append(c.Rules, slices.Concat(openFlows(cfg), passEnvoy(cfg))...)
	for _, f := range Families {
		c.Rules = append(c.Rules,
			// An endpoint in the network of the node itself answers Envoy, which
			// dialled it in a pod's name: the answer is not for the pod.
			Rule{Is{f}, Daddr{f, Pods}, Reply{}, CtMark{Equal, cfg.Own(), cfg.Mask}, captured(cfg), Accept},
			Rule{Is{f}, Frontend{f, Serve}, captured(cfg), SetCtMark{cfg.Mark, cfg.Mask}, Accept})
	}
	// Open connections live on when their frontend is served no longer.
	c.Rules = append(c.Rules, Rule{L4{topology.TCP}, Original{}, Tracked{}, CtMark{Equal, cfg.Mark, cfg.Mask}, captured(cfg), Accept})
	for _, f := range Families {
		c.Rules = append(c.Rules, Rule{Is{f}, Frontend{f, Silent}, Counter{}, Drop})
	}
	return c
}

func guardForward() Chain {
	return Chain{Name: GuardForward, Hook: &Hook{Filter, Forward, 0}, Rules: guarded()}
}

// guardOutput lets pass what is on its way to Capture, and not what only
// bears its mark: where the mark leads to a gateway, that is told by its address.
func guardOutput(cfg plan.Config) Chain {
	c := Chain{Name: GuardOutput, Hook: &Hook{Filter, Output, 0}}
	for _, f := range Families {
		c.Rules = append(c.Rules, Rule{Is{f}, Mark{Equal, cfg.Mark, cfg.Mask}, Nexthop{f, Guard}, Accept})
	}
	c.Rules = append(c.Rules, guarded()...)
	return c
}

// guardLast comes after everybody's NAT. Nothing can be refused that late.
func guardLast() Chain {
	c := Chain{Name: GuardLast, Hook: &Hook{Filter, Postrouting, 250}}
	for _, f := range Families {
		c.Rules = append(c.Rules, Rule{Is{f}, Daddr{f, Guard}, NotLo{}, Counter{}, Drop})
	}
	return c
}

func guarded() (list []Rule) {
	for _, f := range Families {
		list = append(list, Rule{Is{f}, Daddr{f, Guard}, Jump{refuse(f)}})
	}
	return list
}

func hairpin(cfg plan.Config) Chain {
	c := Chain{Name: Hairpins, Hook: &Hook{NAT, Postrouting, 100}, Rules: []Rule{
		{Mark{NotEqual, cfg.Own(), cfg.Mask}, Return},
	}}
	for _, f := range Families {
		c.Rules = append(c.Rules, Rule{Is{f}, Pair{f, Hairpin}, Masquerade})
	}
	return c
}

func redirect(cfg plan.Config) Chain {
	c := Chain{Name: Redirect, Hook: &Hook{NAT, Prerouting, -102}, Rules: passEnvoy(cfg)}
	for _, f := range Families {
		c.Rules = append(c.Rules,
			Rule{Is{f}, L4{topology.TCP}, FromBridge{}, Frontend{f, Serve}, Saddr{f, Pods}, RedirectTo{cfg.Ports.RedirectKeep()}},
			Rule{Is{f}, L4{topology.TCP}, FromBridge{}, Frontend{f, Serve}, RedirectTo{cfg.Ports.RedirectPlain()}})
	}
	return c
}

// ownPorts: the redirect's listeners listen on every address, for the
// bridge's is not constant.
func ownPorts(cfg plan.Config) Chain {
	c := Chain{Name: OwnPorts, Hook: &Hook{Filter, Input, 0}}
	for _, f := range Families {
		for _, port := range []uint16{cfg.Ports.RedirectKeep(), cfg.Ports.RedirectPlain()} {
			c.Rules = append(c.Rules, Rule{Is{f}, L4{topology.TCP}, Dport{port}, NotDNATed{}, Jump{refuse(f)}})
		}
	}
	return c
}

// captured marks a packet for the route table that delivers it locally.
func captured(cfg plan.Config) Term { return SetMark{cfg.Mark, cfg.Mask} }
