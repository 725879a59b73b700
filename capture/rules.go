package capture

import (
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// TableName is the name of gridmesh's own tables.
const TableName = "gridmesh"

// layout names the shape of the sets. A table of another layout is replaced
// as a whole; one of this layout keeps its sets while the agent restarts.
const layout = "layout-1"

// bridges is the set of the bridges' names.
const bridges = "bridges"

type chain struct {
	name     string
	kind     nftables.ChainType // "" for a chain that is only jumped to
	hook     *nftables.ChainHook
	priority nftables.ChainPriority
	rules    []exprs
}

// chains is the constant part of the table.
func chains(cfg plan.Config) []chain {
	const filter, route, nat = nftables.ChainTypeFilter, nftables.ChainTypeRoute, nftables.ChainTypeNAT
	list := []chain{
		{name: "capture", kind: filter, hook: nftables.ChainHookPrerouting, priority: -150},
		{name: "divert", kind: filter, hook: nftables.ChainHookPrerouting, priority: -90},
		{name: "local", kind: route, hook: nftables.ChainHookOutput, priority: -150, rules: []exprs{
			join(markIs(cfg.Own(), cfg.Mask), setCtMark(cfg.Own(), cfg.Mask), leave()),
		}},
		{name: "guard_forward", kind: filter, hook: nftables.ChainHookForward, priority: 0},
		{name: "guard_output", kind: filter, hook: nftables.ChainHookOutput, priority: 0, rules: []exprs{
			join(markIs(cfg.Mark, cfg.Mask), accept()),
		}},
		{name: "hairpin", kind: nat, hook: nftables.ChainHookPostrouting, priority: 100, rules: []exprs{
			join(markIsNot(cfg.Own(), cfg.Mask), leave()),
		}},
	}
	for _, f := range families {
		take, refuse := "take"+f.suffix, "refuse"+f.suffix
		list[0].rules = append(list[0].rules,
			join(f.is(), f.frontendIn("serve"), jump(take)),
			join(f.is(), f.frontendIn("silent"), countPackets(), drop()))
		// A UDP listener is transparent too, but what the capture does not
		// serve is not its business. Open TCP connections live on.
		list[1].rules = append(list[1].rules,
			join(f.is(), l4proto(unix.IPPROTO_UDP), f.addrIn(f.daddr, "guard"), leave()),
			// A pod may dial an endpoint itself from a port that Envoy used in its
			// name a minute ago: then the answers are the pod's, and not for the
			// socket that still waits (TIME-WAIT). What conntrack has forgotten
			// goes by the socket alone.
			join(f.is(), f.addrIn(f.daddr, "pods"), ctKnown(), ctMarkIsNot(cfg.Own(), cfg.Mask), leave()))
		list[2].rules = append(list[2].rules,
			join(f.is(), f.frontendIn("serve"), setMark(cfg.Mark, cfg.Mask), accept()),
			join(f.is(), f.frontendIn("silent"), countPackets(), drop()))
		guard := join(f.is(), f.addrIn(f.daddr, "guard"), jump(refuse))
		list[3].rules = append(list[3].rules, guard)
		list[4].rules = append(list[4].rules, guard)
		list[5].rules = append(list[5].rules, join(f.is(), f.pairIn("hairpin"), masquerade()))
		takes := []exprs{
			join(l4proto(unix.IPPROTO_TCP), f.addrIn(f.saddr, "pods"), f.tproxy(cfg.Ports.Keep()), setMark(cfg.Mark, cfg.Mask), accept()),
			join(l4proto(unix.IPPROTO_TCP), f.tproxy(cfg.Ports.Plain()), setMark(cfg.Mark, cfg.Mask), accept()),
			join(l4proto(unix.IPPROTO_UDP), socketTransparent(), setMark(cfg.Mark, cfg.Mask), accept()),
			// Nobody listens. The host's own packets carry the mark already
			// and would be delivered here, where the kernel has no address
			// to answer from; all others meet the guard.
			join(markIs(cfg.Mark, cfg.Mask), jump(refuse)),
		}
		if cfg.KeepBridgeNetfilter {
			takes = slices.Insert(takes, 0, join(l4proto(unix.IPPROTO_TCP), onBridge(), leave()))
		}
		list = append(list,
			chain{name: take, rules: takes},
			chain{name: refuse, rules: []exprs{
				join(l4proto(unix.IPPROTO_TCP), countPackets(), resetTCP()),
				join(countPackets(), rejectUnreachable()),
			}})
	}
	// Without a protocol match: ICMP errors of kept sources must come home
	// too, or path MTU discovery hangs.
	list[1].rules = append(list[1].rules, join(socketTransparent(), setMark(cfg.Mark, cfg.Mask), accept()))
	if cfg.KeepBridgeNetfilter {
		list = append(list, redirects(cfg)...)
	}
	return list
}

// redirects serve pods on bridges whose netfilter must stay on: there the
// bridge's own pass through prerouting drops the socket that tproxy assigned.
func redirects(cfg plan.Config) []chain {
	turn := chain{name: "redirect", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookPrerouting, priority: -100}
	own := chain{name: "own_ports", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookInput, priority: 0}
	for _, f := range families {
		match := join(f.is(), l4proto(unix.IPPROTO_TCP), onBridge(), f.frontendIn("serve"))
		turn.rules = append(turn.rules,
			join(match, f.addrIn(f.saddr, "pods"), redirect(cfg.Ports.RedirectKeep())),
			join(match, redirect(cfg.Ports.RedirectPlain())))
		// These listen on every address, for the bridge's is not constant.
		for _, port := range []uint16{cfg.Ports.RedirectKeep(), cfg.Ports.RedirectPlain()} {
			own.rules = append(own.rules, join(f.is(), destinationPort(port), notRedirected(), jump("refuse"+f.suffix)))
		}
	}
	return []chain{turn, own}
}

// setSpecs is every set of the table, without elements.
func setSpecs(t *nftables.Table) []*nftables.Set {
	specs := []*nftables.Set{
		{Table: t, Name: layout, KeyType: nftables.TypeInetService},
		{Table: t, Name: bridges, KeyType: nftables.TypeIFName, KeyByteOrder: binaryutil.NativeEndian},
	}
	for _, f := range families {
		frontend := nftables.MustConcatSetType(f.addrType, nftables.TypeInetProto, nftables.TypeInetService)
		pair := nftables.MustConcatSetType(f.addrType, f.addrType)
		specs = append(specs,
			&nftables.Set{Table: t, Name: "serve" + f.suffix, KeyType: frontend, Concatenation: true},
			&nftables.Set{Table: t, Name: "silent" + f.suffix, KeyType: frontend, Concatenation: true},
			&nftables.Set{Table: t, Name: "hairpin" + f.suffix, KeyType: pair, Concatenation: true},
			&nftables.Set{Table: t, Name: "guard" + f.suffix, KeyType: f.addrType, Interval: true},
			&nftables.Set{Table: t, Name: "pods" + f.suffix, KeyType: f.addrType, Interval: true})
	}
	return specs
}
