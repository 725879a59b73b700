package health

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// MemberOf is what is kept of a Node.
func MemberOf(n *corev1.Node) Member {
	m := Member{Name: n.Name, UID: string(n.UID), Verdict: n.Annotations[names.NodeHealth], Lost: true}
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			m.Addrs = append(m.Addrs, ip.Unmap())
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			m.Lost = c.Status != corev1.ConditionTrue
		}
	}
	return m
}

// FollowUnit tells who is in a node's unit, by a label of Nodes, whenever that changes, until
// ctx ends. It begins with what was known last, of a file; a node that the API server has not
// answered yet votes by that.
func FollowUnit(ctx context.Context, c *kube.Client, node, unitKey, file string, tell func(Unit), log logger) error {
	last, err := readUnit(file)
	if err != nil {
		log.Warn("what was known last of the unit is not used", obs.KeyErr, err)
	} else if last != nil {
		tell(*last)
	}
	own := typed.Nodes(c, typed.Selection{Fields: "metadata.name=" + node}, func(n *corev1.Node) string { return n.Labels[unitKey] })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = own.Run(ctx) }()
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
		unit, there := own.Get(node)
		within, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		if !there || unit == "" {
			say(Unit{})
			ended <- nil
		} else {
			go func() { ended <- followMembers(within, c, unitKey, unit, say) }()
		}
		for changed := false; !changed; {
			select {
			case <-own.Wake():
				now, is := own.Get(node)
				changed = is != there || now != unit
			case <-ctx.Done():
				end()
				return <-ended
			}
		}
		end()
		if err := <-ended; err != nil {
			return err
		}
	}
}

// followMembers tells who is in a unit.
func followMembers(ctx context.Context, c *kube.Client, unitKey, unit string, tell func(Unit)) error {
	nodes := typed.Nodes(c, typed.Selection{Labels: unitKey + "=" + unit}, MemberOf)
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
			u.Members = append(u.Members, m)
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
