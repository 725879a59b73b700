package health

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// MemberOf is what is kept of a Node.
func MemberOf(n *corev1.Node) Member {
	m := Member{Name: n.Name, UID: string(n.UID), Verdict: n.Annotations[names.NodeHealth], Lost: true}
	if e, err := evidence.Parse(n.Annotations[names.Evidence]); err == nil {
		m.Cut, m.By = e.Cut, e.By
	}
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP || len(m.Addrs) == peer.MostAddrs {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && !slices.Contains(m.Addrs, ip.Unmap()) {
			m.Addrs = append(m.Addrs, ip.Unmap())
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			m.Lost, m.since = c.Status != corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return m
}

// FollowUnit tells who is in a node's unit, as groupings have it, whenever that changes, until
// ctx ends. It begins with what was known last, of a file; a node that the API server has not
// answered yet, or whose grouping is not known, votes by that.
func FollowUnit(ctx context.Context, c *kube.Client, node string, groupings <-chan Grouping, file string, tell func(Unit), log logger) error {
	last, err := readUnit(file)
	if err != nil {
		log.Warn("what was known last of the unit is not used", obs.KeyErr, err)
	} else if last != nil {
		begin := *last
		begin.Kept = true
		tell(begin)
	}
	own := typed.Nodes(c, typed.Selection{Fields: "metadata.name=" + node}, func(n *corev1.Node) map[string]string { return n.Labels })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = own.Run(ctx) }()
	var g Grouping
	select {
	case g = <-groupings:
	case <-ctx.Done():
		return nil
	}
	select {
	case <-own.Ready():
	case <-ctx.Done():
		return nil
	}
	kept := keeping{file: file, last: last, log: log}
	defer kept.end()
	say := func(u Unit) {
		tell(u)
		kept.take(u)
	}
	for {
		unit := unitNow(own, node, g)
		within, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		if unit == "" {
			say(Unit{})
			ended <- nil
		} else {
			go func() { ended <- followMembers(within, c, g, unit, say) }()
		}
		g = other(ctx, own, node, g, unit, groupings)
		end()
		if err := <-ended; err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// unitNow is the unit that a node is in; none where there is no such Node.
func unitNow(own *typed.Mirror[map[string]string], node string, g Grouping) string {
	labels, there := own.Get(node)
	if !there {
		return ""
	}
	return g.unitOf(labels)
}

// other waits until a node is in another unit, or units are others, and returns how nodes are
// grouped by then.
func other(ctx context.Context, own *typed.Mirror[map[string]string], node string, g Grouping, unit string, groupings <-chan Grouping) Grouping {
	for {
		select {
		case <-own.Wake():
			if unitNow(own, node, g) != unit {
				return g
			}
		case next := <-groupings:
			if !next.equal(g) {
				return next
			}
		case <-ctx.Done():
			return g
		}
	}
}

// followMembers tells who is in a unit.
func followMembers(ctx context.Context, c *kube.Client, g Grouping, unit string, tell func(Unit)) error {
	type in struct {
		Member
		unit string
	}
	nodes := typed.Nodes(c, typed.Selection{Labels: g.selector(unit)}, func(n *corev1.Node) in { return in{MemberOf(n), g.unitOf(n.Labels)} })
	ended := make(chan error, 1)
	go func() { ended <- nodes.Run(ctx) }()
	select {
	case <-nodes.Ready():
	case <-ctx.Done():
		return <-ended
	}
	for {
		nodes.Changes()
		u := Unit{Name: unit}
		for _, m := range nodes.All() {
			if m.unit == unit {
				u.Members = append(u.Members, m.Member)
			}
		}
		slices.SortFunc(u.Members, byName)
		tell(u)
		select {
		case <-nodes.Wake():
		case <-ctx.Done():
			return <-ended
		}
	}
}
