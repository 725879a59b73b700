// Package guard finds what is in guarded ranges that is no Service's: whoever dials
// it from this node is refused.
//
//	check.go       mistakes in the ranges: this host's own networks, its pods, and what it routes elsewhere
//	services.go    ranges of flags in which no Service is
//	endpoints.go   pods of any node, as snapshots go by
//	clusterips.go  the other way round: ClusterIPs that are somebody's already
//
// It does no I/O.
package guard

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/topology"
)

// Overlap is a guarded range in which not only Services are. What is sent
// to the others is refused, as long as they are there.
const Overlap capture.FindingKind = "service-cidr"

// What to do about it, by who says what is guarded.
const (
	CureFlag   = "give --service-cidr the ranges of ClusterIPs that the API server was started with (under deploy/: serviceCIDRs in the ConfigMap gridmesh-apiserver), or none where you do not know them"
	cureObject = "give the cluster another ServiceCIDR, or them other addresses"
)

// Check is what is guarded, and what might be in it.
type Check struct {
	Flags, Cluster []netip.Prefix // by --service-cidr, and by the cluster's ServiceCIDRs
	Pods           []netip.Prefix // of this node
	Networks       []capture.Network
	Snapshot       *topology.Snapshot // whose Services there are; nil: not known
}

// Findings says what is in guarded ranges that is no Service's. The first of them are about
// the ranges of flags that would cut this node off, which are grave.
func (g Check) Findings() (list []capture.Finding, grave []netip.Prefix) {
	add := func(format string, args ...any) {
		list = append(list, capture.Finding{Kind: Overlap, Text: fmt.Sprintf(format, args...)})
	}
	for _, p := range g.Flags {
		if text := g.on(p); text != "" {
			add("--service-cidr %s overlaps %s: what this node and its pods send there is refused, to other nodes and the API server too if they are there; %s", p, text, CureFlag)
			grave = append(grave, p)
		}
	}
	for _, p := range g.Flags {
		g.others("--service-cidr", p, CureFlag, add)
		if same := ofFamily(g.Cluster, p); len(same) > 0 && !slices.ContainsFunc(same, p.Overlaps) {
			add("--service-cidr %s is none of the cluster's ServiceCIDRs (%s): no Service is there, and what is sent there is refused on this node; %s", p, several(same), CureFlag)
		}
	}
	g.nowhere(add)
	for _, p := range g.Cluster {
		if slices.Contains(g.Flags, p) {
			continue
		}
		if text := g.on(p); text != "" {
			add("ServiceCIDR %s overlaps %s: what this node and its pods send there is refused; %s", p, text, cureObject)
		}
		g.others("ServiceCIDR", p, cureObject, add)
	}
	return list, grave
}

// Within are the ranges that overlap one of others.
func Within(ranges, others []netip.Prefix) (list []netip.Prefix) {
	for _, p := range ranges {
		if slices.ContainsFunc(others, p.Overlaps) {
			list = append(list, p)
		}
	}
	return list
}

// New are the ranges that were not guarded before, or not all of them.
func New(ranges, before []netip.Prefix) (list []netip.Prefix) {
	for _, p := range ranges {
		if !slices.ContainsFunc(before, func(had netip.Prefix) bool { return had.Bits() <= p.Bits() && had.Overlaps(p) }) {
			list = append(list, p)
		}
	}
	return list
}

// Refused is told of ranges of flags that are not in force, for those of a run before are.
func Refused(ranges, before []netip.Prefix) capture.Finding {
	return refused("--service-cidr", "networks, pods or API server", "no range of the flag is, as before", CureFlag, ranges, before)
}

// RefusedObject is told of ranges of a source that are not in force, for those of before are.
// servers are those in them from where an API server answered: nobody need be there any more.
func RefusedObject(ranges, before []netip.Prefix, servers []netip.Addr) capture.Finding {
	f := refused("ServiceCIDR", "pods, its loopback or link-local addresses, or its API server", "none was before", cureObject, ranges, before)
	for _, ip := range servers {
		f.Text += fmt.Sprintf("; an API server answered from %s: if none is there any more, this ends 30 days after its last answer, or stop this node's agent, remove the file state from its --state-dir, and start it", ip)
	}
	return f
}

func refused(what, own, none, cure string, ranges, before []netip.Prefix) capture.Finding {
	if len(before) > 0 {
		none = several(before) + ", which was before, is"
	}
	return capture.Finding{Kind: Overlap, Text: fmt.Sprintf("%s %s is not in force: this node's own %s are in it, and it would be cut off; %s; %s", what, several(ranges), own, none, cure)}
}

// on names the networks of this node that a range overlaps.
func (g Check) on(p netip.Prefix) string {
	return named(g.Networks, "the network of", func(n capture.Network) bool { return !n.Route && n.Prefix.Overlaps(p) })
}

// others adds what else is in a range: pods of this node, and what it routes
// elsewhere.
func (g Check) others(what string, p netip.Prefix, cure string, add func(string, ...any)) {
	if i := slices.IndexFunc(g.Pods, p.Overlaps); i >= 0 {
		add("%s %s overlaps %s, the pods of this node: who dials one of them by its own address is refused here; %s", what, p, g.Pods[i], cure)
	}
	inside := func(n capture.Network) bool { return n.Route && n.Prefix.Overlaps(p) && n.Prefix.Bits() > p.Bits() }
	if text := named(g.Networks, "which is routed by", inside); text != "" {
		add("%s %s holds %s: what this node and its pods send there is refused, pods of other nodes perhaps; %s", what, p, text, cure)
	}
}

// named is the first of the networks that are meant, and how many more are.
func named(list []capture.Network, how string, meant func(capture.Network) bool) string {
	text, more := "", 0
	for _, n := range list {
		switch {
		case !meant(n):
		case text == "":
			text = fmt.Sprintf("%s, %s %s", n.Prefix, how, n.Link)
		default:
			more++
		}
	}
	if more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

func ofFamily(list []netip.Prefix, p netip.Prefix) (same []netip.Prefix) {
	for _, o := range list {
		if o.Addr().Is4() == p.Addr().Is4() {
			same = append(same, o)
		}
	}
	return same
}

func several(list []netip.Prefix) string {
	var texts []string
	for _, p := range list[:min(4, len(list))] {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}
