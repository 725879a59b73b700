package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// KernelName is the name of the table of the kernel path. It is one of its own:
// what changes with every endpoint lies apart from the guard, and is made anew
// without it.
const KernelName = "gridmesh_kernel"

// Sets and maps of the kernel path.
const (
	// KernelLayout names their shape, as Layout does that of the other table, and where
	// the chains are hooked, which no chain can change.
	KernelLayout = "kernel-layout-4"
	// Absent holds the protocols that Envoy gets no new connections of, and is in
	// the table of the capture.
	Absent = "absent"

	Front   SetName = "front"   // frontend -> the chain that picks an endpoint
	Near    SetName = "near"    // the same for clients from elsewhere, with externalTrafficPolicy: Local
	Policy  SetName = "policy"  // frontends outside of the ClusterIPs -> the chain of their policy
	Slots   SetName = "slots"   // (frontend, number) -> endpoint
	Limited SetName = "limited" // frontends that not everybody may dial -> the chain of the list of who may
	Allowed SetName = "allowed" // (frontend, source) that may besides
	Names   SetName = "names"   // (frontend with affinity, number) -> the name of that endpoint
	Ends    SetName = "ends"    // (frontend with affinity, name) -> endpoint
	Loops   SetName = "loops"   // (endpoint, endpoint): a pod that may meet itself
)

// Chains of the kernel path.
const (
	KernelIn   = "kernel_in"   // sees the first packet of what comes in
	KernelOut  = "kernel_out"  // the host's own
	KernelPost = "kernel_post" // what they sent elsewhere, as it leaves
	External   = "external"    // its source will not be kept
	Withhold   = "withhold"    // drops
)

// Kernel is the table of the kernel path, all but the chains of PickChain and ListChain, and
// their sets. It is constant for a configuration.
func Kernel(cfg plan.Config) *Table {
	t := &Table{Family: "inet", Name: KernelName, Sets: kernelSets(), cfg: cfg}
	t.Chains = []Chain{
		{Name: External, Rules: []Rule{{SetCtMark{cfg.Mask, cfg.Mask}}}},
		{Name: Withhold, Rules: []Rule{{Counter{}, Drop}}},
	}
	for _, f := range Families {
		t.Chains = append(t.Chains, refusing(f), admission(f), nearby(f), services(f))
	}
	t.Chains = append(t.Chains,
		// After Redirect, and before kube-proxy's at -100: the first that translates a
		// connection is the only one, so beside it this path has all that it knows.
		kernelBase(cfg, KernelIn, Prerouting, -101),
		kernelBase(cfg, KernelOut, Output, -101),
		kernelPost(cfg))
	return t
}

func kernelSets() []Set {
	list := []Set{{Name: KernelLayout, Type: []string{"inet_service"}}}
	for _, f := range Families {
		addr := "ipv" + string(f) + "_addr"
		frontend := []string{addr, "inet_proto", "inet_service"}
		endpoint := []string{addr, "inet_service"}
		with := func(more ...string) []string { return append(frontend[:3:3], more...) }
		list = append(list,
			Set{Name: Pods.For(f), Type: []string{addr}, Interval: true},
			Set{Name: Front.For(f), Type: frontend, Data: []string{"verdict"}},
			Set{Name: Near.For(f), Type: frontend, Data: []string{"verdict"}},
			Set{Name: Policy.For(f), Type: frontend, Data: []string{"verdict"}},
			Set{Name: Slots.For(f), Type: with("mark"), Data: endpoint},
			Set{Name: Limited.For(f), Type: frontend, Data: []string{"verdict"}},
			Set{Name: Allowed.For(f), Type: with(addr)},
			Set{Name: Names.For(f), Type: with("mark"), Data: []string{"classid"}},
			Set{Name: Ends.For(f), Type: with("classid"), Data: endpoint},
			Set{Name: Loops.For(f), Type: []string{addr, addr}})
	}
	return list
}

// kernelBase leaves alone what Envoy has, and what it sends itself.
func kernelBase(cfg plan.Config, name string, at Point, priority int) Chain {
	c := Chain{Name: name, Hook: &Hook{NAT, at, priority}, Rules: []Rule{{Mark{NotEqual, 0, cfg.Mask}, Return}}}
	for _, f := range Families {
		c.Rules = append(c.Rules, Rule{Is{f}, Jump{serviceChain(f)}})
	}
	return c
}

func serviceChain(f Family) string { return "services" + string(f) }
func admitChain(f Family) string   { return "admission" + string(f) }
func nearChain(f Family) string    { return "nearby" + string(f) }

func services(f Family) Chain {
	return Chain{Name: serviceChain(f), Rules: []Rule{
		{Dispatch{f, Limited}},
		{Dispatch{f, Policy}},
		{Dispatch{f, Front}},
	}}
}

// admission is for whom no list has.
func admission(f Family) Chain {
	return Chain{Name: admitChain(f), Rules: []Rule{
		{FrontendFrom{f, Allowed}, Return},
		{Counter{}, Drop},
	}}
}

// nearby is externalTrafficPolicy: Local, which is about clients from elsewhere.
func nearby(f Family) Chain {
	return Chain{Name: nearChain(f), Rules: []Rule{
		{Saddr{f, Pods}, Return},
		{FromNode{}, Return},
		{Dispatch{f, Near}},
	}}
}

func kernelPost(cfg plan.Config) Chain {
	c := Chain{Name: KernelPost, Hook: &Hook{NAT, Postrouting, 100}, Rules: []Rule{
		{DNATed{}, Named{}, Unname{}},
		{DNATed{}, CtMark{Equal, cfg.Mask, cfg.Mask}, Masquerade},
	}}
	for _, f := range Families {
		c.Rules = append(c.Rules, Rule{Is{f}, DNATed{}, Pair{f, Loops}, Masquerade})
	}
	return c
}

// PickName is the chain of a Pick.
func PickName(p plan.Pick) string {
	f := IPv4
	if p.IPv6 {
		f = IPv6
	}
	switch {
	case p.Among == 0 && p.Silent:
		return Withhold
	case p.Among == 0:
		return refuse(f)
	}
	name := "pick"
	if p.Near {
		name = string(Near)
	}
	name += string(f) + "_" + strconv.Itoa(p.Among)
	if p.Sticky > 0 {
		name += fmt.Sprintf("_%ds_%s", p.Sticky, sessionName(p.Session, p.Many))
	}
	return name
}

// PolicyName is the chain of a policy.
func PolicyName(f Family, local bool) string {
	if local {
		return nearChain(f)
	}
	return External
}

// ParsePick is the Pick of a chain that PickName named.
func ParsePick(name string) (p plan.Pick, ok bool) {
	fields := strings.Split(name, "_")
	if len(fields) < 2 {
		return p, false
	}
	p.Near = strings.HasPrefix(name, string(Near))
	p.IPv6 = strings.HasSuffix(fields[0], string(IPv6))
	p.Among, _ = strconv.Atoi(fields[1])
	if len(fields) == 4 {
		seconds, _ := strconv.ParseUint(strings.TrimSuffix(fields[2], "s"), 10, 32)
		p.Sticky = uint32(seconds)
		p.Session, p.Many = parseSession(fields[3])
	}
	return p, p.Among > 0 && p.Among < plan.NearSlot && PickName(p) == name
}

// PickChain chooses one of so many endpoints. The source is kept for pods of
// this node, and for clients from elsewhere where the policy is Local.
func PickChain(cfg plan.Config, p plan.Pick) Chain {
	f := IPv4
	if p.IPv6 {
		f = IPv6
	}
	c := Chain{Name: PickName(p)}
	if !p.Near {
		c.Rules = append(c.Rules, Rule{NotSaddr{f, Pods}, SetCtMark{cfg.Mask, cfg.Mask}})
	}
	// A packet that comes while endpoints go may choose a slot that is gone; there is a first
	// one as long as there is any. The last rule is for that one, where somebody took it away.
	first := p
	first.Among = 1
	choose := Term(Choose{f, p})
	if p.Sticky > 0 {
		c.Rules, choose = append(c.Rules, Rule{Remembered{f, p}}, Rule{Remember{f, p}}, Rule{Remember{f, first}}), Unremembered{f, p}
	}
	c.Rules = append(c.Rules, Rule{choose}, Rule{Choose{f, first}}, Rule{Jump{refuse(f)}})
	return c
}

// openFlows lets connections that the kernel path has go on with it.
func openFlows(cfg plan.Config) []Rule {
	if cfg.Kernel == nil {
		return nil
	}
	return []Rule{{DNATed{}, Return}}
}

// passEnvoy leaves new connections to the kernel path while Envoy is absent, where more
// matches, too. One that Envoy did not answer before has to wait until conntrack forgets it
// (Capture.EnvoyAbsent): NAT translates no second packet, and the guard would refuse it.
func passEnvoy(cfg plan.Config, more ...Term) (list []Rule) {
	if cfg.Kernel == nil {
		return nil
	}
	absent := slices.Concat(Rule{New{}, InAbsent{}}, more)
	for _, f := range Families {
		list = append(list, slices.Concat(absent, Rule{Confirmed{}, Is{f}, L4{topology.TCP}, Frontend{f, Serve}, Counter{}, Drop}))
	}
	return append(list, slices.Concat(absent, Rule{Return}))
}

// nobodyListens ends the way of what Envoy did not take. The host's own packets
// carry the mark already and would be delivered here, where the kernel has no
// address to answer from; for those the kernel path would come too late. All
// others meet it, or the guard.
func nobodyListens(cfg plan.Config, f Family) []Rule {
	if cfg.Kernel == nil {
		return []Rule{{Mark{Equal, cfg.Mark, cfg.Mask}, Jump{refuse(f)}}}
	}
	return []Rule{
		{FromLo{}, Mark{Equal, cfg.Mark, cfg.Mask}, Jump{refuse(f)}},
		{Mark{Equal, cfg.Mark, cfg.Mask}, SetMark{0, cfg.Mask}},
	}
}

// astray ends the way of what would not be delivered to Envoy.
func astray(cfg plan.Config, f Family) []Term {
	if cfg.Kernel == nil {
		return []Term{Jump{refuse(f)}}
	}
	return []Term{SetMark{0, cfg.Mask}, Return}
}

// switches are the sets of the capture's table that only the kernel path needs.
func switches(cfg plan.Config) []Set {
	if cfg.Kernel == nil {
		return nil
	}
	return []Set{{Name: Absent, Type: []string{"inet_proto"}}}
}

// protocols are those of Services, TCP first.
var protocols = []topology.Protocol{topology.TCP, topology.UDP, topology.SCTP}

// protocols are those that are lifted. Of the kernel path, answers of all are
// changed on layer 3. Nothing else is: neighbours of IPv6 find each other on layer 2.
func (b *PodBridge) protocols() []topology.Protocol {
	if b.All {
		return protocols
	}
	return protocols[:1]
}

// Protocols are what Absent holds while Envoy is absent.
func Protocols() []topology.Protocol { return protocols }

// head is how nft(8) begins to describe a set or a map.
func (s Set) head() string {
	kind, leadsTo := "set", ""
	if s.Data != nil {
		kind, leadsTo = "map", " : "+strings.Join(s.Data, " . ")
	}
	text := fmt.Sprintf("\t%s %s {\n\t\ttype %s%s\n", kind, s.Name, strings.Join(s.Type, " . "), leadsTo)
	if s.Size > 0 {
		text += fmt.Sprintf("\t\tsize %d\n", s.Size)
	}
	return text
}
