package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/topology"
)

// guardOverlap is a guarded range in which not only Services are. What is sent
// to the others is refused, as long as they are there.
const guardOverlap capture.FindingKind = "service-cidr"

// What to do about it, by who says what is guarded.
const (
	cureFlag   = "give --service-cidr the ranges of ClusterIPs that the API server was started with (under deploy/: serviceCIDRs in the ConfigMap gridmesh-apiserver), or none where you do not know them"
	cureObject = "give the cluster another ServiceCIDR, or them other addresses"
)

// guardCheck is what is guarded, and what might be in it.
type guardCheck struct {
	flags, cluster []netip.Prefix // by --service-cidr, and by the cluster's ServiceCIDRs
	pods           []netip.Prefix // of this node
	networks       []capture.Network
}

// findings says what is in guarded ranges that is no Service's. The first grave
// ones of them are mistakes in the flags that would cut this node off.
func (g guardCheck) findings() (list []capture.Finding, grave int) {
	add := func(format string, args ...any) {
		list = append(list, capture.Finding{Kind: guardOverlap, Text: fmt.Sprintf(format, args...)})
	}
	for _, p := range g.flags {
		if text := g.on(p); text != "" {
			add("--service-cidr %s overlaps %s: what this node and its pods send there is refused, to other nodes and the API server too if they are there; %s", p, text, cureFlag)
			grave++
		}
	}
	for _, p := range g.flags {
		g.others("--service-cidr", p, cureFlag, add)
		if same := ofFamily(g.cluster, p); len(same) > 0 && !slices.ContainsFunc(same, p.Overlaps) {
			add("--service-cidr %s is none of the cluster's ServiceCIDRs (%s): no Service is there, and what is sent there is refused on this node; %s", p, several(same), cureFlag)
		}
	}
	for _, p := range g.cluster {
		if slices.Contains(g.flags, p) {
			continue
		}
		if text := g.on(p); text != "" {
			add("ServiceCIDR %s overlaps %s: what this node and its pods send there is refused; %s", p, text, cureObject)
		}
		g.others("ServiceCIDR", p, cureObject, add)
	}
	return list, grave
}

// on names the networks of this node that a range overlaps.
func (g guardCheck) on(p netip.Prefix) string {
	return named(g.networks, "the network of", func(n capture.Network) bool { return !n.Route && n.Prefix.Overlaps(p) })
}

// others adds what else is in a range: pods of this node, and what it routes
// elsewhere.
func (g guardCheck) others(what string, p netip.Prefix, cure string, add func(string, ...any)) {
	if i := slices.IndexFunc(g.pods, p.Overlaps); i >= 0 {
		add("%s %s overlaps %s, the pods of this node: who dials one of them by its own address is refused here; %s", what, p, g.pods[i], cure)
	}
	inside := func(n capture.Network) bool { return n.Route && n.Prefix.Overlaps(p) && n.Prefix.Bits() > p.Bits() }
	if text := named(g.networks, "which is routed by", inside); text != "" {
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

// checkGuard looks at what is guarded by now, and at this node.
func (a *Agent) checkGuard() (list []capture.Finding, grave int, err error) {
	g := guardCheck{flags: a.cfg.ServiceCIDRs, pods: a.cfg.PodCIDRs}
	if snap, ok := a.snapshot.Get(); ok {
		g.cluster = snap.ServiceCIDRs
	}
	if pods, ok := a.podCIDRs.Get(); ok {
		g.pods = pods
	}
	if a.parts.Networks != nil {
		g.networks, err = a.parts.Networks(slices.Concat(g.flags, g.cluster))
	}
	list, grave = g.findings()
	return list, grave, err
}

// refuseGuard keeps an agent from starting where the flags' ranges would cut
// off a node that was not served before. One that was goes on, and says so: one
// with rules of a run before, or, after a boot, with a last good state.
func (a *Agent) refuseGuard(ctx context.Context, grave []capture.Finding) error {
	if len(grave) == 0 {
		return nil
	}
	earlier, err := a.parts.Capture.Earlier()
	if err != nil || earlier.Rules {
		return err
	}
	if _, err := os.Stat(a.cfg.statePath()); err == nil {
		return nil
	}
	var errs []error
	for _, f := range grave {
		errs = append(errs, errors.New(f.Text))
	}
	return a.unfit(ctx, errors.Join(errs...))
}

// refusePods keeps an agent from starting with pods of this node in a range of
// the flags, and without knowing them: rules of a run before go on.
func (a *Agent) refusePods(ctx context.Context, pods []netip.Prefix) error {
	for _, p := range pods {
		if i := slices.IndexFunc(a.cfg.ServiceCIDRs, p.Overlaps); i >= 0 {
			return a.unfit(ctx, fmt.Errorf("--service-cidr %s overlaps %s, the pods of this node; %s", a.cfg.ServiceCIDRs[i], p, cureFlag))
		}
	}
	return nil
}

// guardChanges reports whether other ranges are guarded with the next snapshot.
func (l *loop) guardChanges(next *topology.Snapshot) bool {
	return l.snap == nil || !slices.Equal(l.snap.ServiceCIDRs, next.ServiceCIDRs)
}

// guardedEndpoints keeps the Services with endpoints in guarded ranges as
// snapshots go by: pods of any node, as they come and go.
type guardedEndpoints struct {
	snap  *topology.Snapshot
	guard []netip.Prefix
	first map[topology.ObjectKey]netip.Addr // of each such Service
	list  []topology.Problem                // what problems said of them
}

// next takes a snapshot, and the ranges of the flags, which are always the
// same. It costs O(changed).
func (g *guardedEndpoints) next(snap *topology.Snapshot, flags []netip.Prefix) []topology.Problem {
	if g.first == nil || !slices.Equal(g.snap.ServiceCIDRs, snap.ServiceCIDRs) {
		*g = guardedEndpoints{guard: mergePrefixes(flags, snap.ServiceCIDRs), first: map[topology.ObjectKey]netip.Addr{}}
	}
	concerned := false
	for key := range snap.Changed(g.snap) {
		_, was := g.first[key]
		delete(g.first, key)
		concerned = concerned || was
		if entry, ok := snap.Services.Get(key); ok && entry.Service != nil {
			if addr, in := g.inside(entry); in {
				g.first[key], concerned = addr, true
			}
		}
	}
	g.snap = snap
	if concerned {
		g.list = g.problems(flags)
	}
	return g.list
}

func (g *guardedEndpoints) inside(entry *topology.Entry) (netip.Addr, bool) {
	for _, slice := range entry.Slices {
		for i := range slice.Endpoints {
			if g.rangeOf(slice.Endpoints[i].Addr) >= 0 {
				return slice.Endpoints[i].Addr, true
			}
		}
	}
	return netip.Addr{}, false
}

func (g *guardedEndpoints) rangeOf(addr netip.Addr) int {
	return slices.IndexFunc(g.guard, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// problems names one Service of each range.
func (g *guardedEndpoints) problems(flags []netip.Prefix) (list []topology.Problem) {
	count, least := make([]int, len(g.guard)), make([]topology.ObjectKey, len(g.guard))
	for key, addr := range g.first {
		i := g.rangeOf(addr)
		if count[i]++; count[i] == 1 || key.Compare(least[i]) < 0 {
			least[i] = key
		}
	}
	for i, p := range g.guard {
		if count[i] == 0 {
			continue
		}
		field, cure := "ServiceCIDR", cureObject
		if slices.Contains(flags, p) {
			field, cure = "--service-cidr", cureFlag
		}
		list = append(list, topology.Problem{Object: "service " + least[i].String(), Field: field, Text: fmt.Sprintf(
			"its endpoint %s is in the guarded range %s, as those of %d other Services: who dials such a pod by its own address is refused on this node; %s", g.first[least[i]], p, count[i]-1, cure)})
	}
	return list
}
