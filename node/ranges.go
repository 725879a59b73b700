package node

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// cidrs are the ranges of a source: what is guarded of them.
type cidrs struct {
	begun bool               // the rest is of a snapshot, or of the last good state
	base  []netip.Prefix     // believed last, all of them
	known bool               // they were, and it was known which pods there are
	wrong []netip.Prefix     // not guarded, for they hold this node's own
	heard []netip.Addr       // API servers in them, by their answers
	stay  []netip.Prefix     // guarded in their place, of those believed before
	ips   guard.ClusterIPs   // that would be guarded one by one
	made  *topology.Snapshot // with what is guarded in place of what it said; nil for none
}

func (c *cidrs) finding() (list []capture.Finding) {
	if len(c.wrong) > 0 {
		list = append(list, guard.RefusedObject(c.wrong, c.stay, c.heard))
	}
	return list
}

// refuses reports whether something of the source is not guarded, for it is somebody's.
func (c *cidrs) refuses() bool { return len(c.wrong) > 0 || c.ips.Any() }

// believeRanges has no range of a source guarded in which this node's own pods are, its loopback or the API server,
// unless it was before: as a flag it would keep an agent from starting, and nobody without an API server hears the
// cure. What was guarded stays so then, for it is not known what was meant. As long as it is not known which pods
// there are, nothing that may hold them counts as what was. So it is with ClusterIPs in no guarded range.
func (l *loop) believeRanges(snap *topology.Snapshot) *topology.Snapshot {
	c := &l.cidrs
	if snap == c.made {
		return snap
	}
	switch {
	case c.begun:
	case l.restored == nil: // there is none, or it may come yet
		c.ips.Before(nil, false, l.held)
	default:
		c.ips.Before(l.restored.Snapshot, len(l.restored.PodCIDRs) > 0, l.held)
		c.restored(l.restored)
	}
	if c.begun = c.begun || l.restored != nil || l.unread.state == nil; c.begun {
		l.held = nil
	}
	l.noteServers()
	pods, servers := slices.Concat(l.pods, l.writtenPods()), servers(answered(l.servers), snap)
	own, before := slices.Concat(pods, topology.NodesOwn), c.base
	if !c.known {
		before = slices.DeleteFunc(slices.Clone(before), func(p netip.Prefix) bool { return slices.ContainsFunc(own, p.Overlaps) })
	}
	c.wrong = guard.New(guard.Within(snap.ServiceCIDRs, slices.Concat(own, servers)), slices.Concat(l.ranges, before))
	c.heard = slices.DeleteFunc(answered(l.servers), func(ip netip.Addr) bool {
		return !slices.ContainsFunc(c.wrong, func(p netip.Prefix) bool { return p.Contains(ip) })
	})
	out := *snap
	if c.stay = before; len(c.wrong) == 0 {
		c.base, c.known = snap.ServiceCIDRs, len(pods) > 0
	} else {
		out.ServiceCIDRs = guard.Merge(before, slices.DeleteFunc(slices.Clone(snap.ServiceCIDRs), func(p netip.Prefix) bool { return slices.Contains(c.wrong, p) }))
	}
	believed := c.ips.Next(snap, guard.Own{
		Node: slices.Concat(topology.NodesOwn, l.addresses()), Pods: pods, Servers: servers,
		Refused: c.wrong, Guarded: guard.Merge(l.ranges, out.ServiceCIDRs),
	})
	if c.made = nil; len(c.wrong) == 0 && believed == snap {
		return snap
	}
	out.Services = believed.Services
	c.made = &out
	return c.made
}

// restored takes what a run before believed. What was believed while the disk was silent, without knowing the pods, or
// over an API server that only the state tells of, counts for less.
func (c *cidrs) restored(st *source.State) {
	kept := st.Snapshot.ServiceCIDRs
	if !c.known {
		c.base, c.known = kept, len(st.PodCIDRs) > 0
		return
	}
	known := serversOf(st)
	c.base = slices.DeleteFunc(slices.Clone(c.base), func(p netip.Prefix) bool {
		return !slices.Contains(kept, p) && slices.ContainsFunc(known, p.Overlaps)
	})
}

// rejudgeRanges acts where something that ranges and ClusterIPs are judged by is another.
func (l *loop) rejudgeRanges() {
	if l.live {
		l.apply(l.judge(l.raw))
	}
}

// writtenPods are this node's by the manifests that the newest snapshot is of: they come to the loop later.
func (l *loop) writtenPods() []netip.Prefix {
	if !l.asksPods() || l.parts.Cluster != nil {
		return nil
	}
	return l.parts.PodCIDRs(l.cfg.Node)
}
