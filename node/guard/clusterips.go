package guard

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// Own is what no Service may have for a ClusterIP, where that is in no guarded range: it would be
// guarded by itself, and who is there be cut off from this node.
type Own struct {
	Node    []netip.Prefix // addresses of this node, its loopback too
	Pods    []netip.Prefix // of this node
	Servers []netip.Prefix // where the API server is
	Refused []netip.Prefix // ranges that are not guarded
	Guarded []netip.Prefix // those that are: what is in them is theirs
}

func (o Own) equal(p Own) bool {
	return slices.Equal(o.Node, p.Node) && slices.Equal(o.Pods, p.Pods) && slices.Equal(o.Servers, p.Servers) &&
		slices.Equal(o.Refused, p.Refused) && slices.Equal(o.Guarded, p.Guarded)
}

// ClusterIPs leaves those out of snapshots, as they go by, that no Service may have. What was served
// before stays, but for addresses of the node, and of pods that were not known then.
type ClusterIPs struct {
	raw, out *topology.Snapshot // the last, and what became of it
	by       Own                // what that was judged by
	made     map[topology.ObjectKey]made
	kept     *topology.Snapshot // what a run before served, for the next judgement; nil for none
	sure     bool               // that knew which pods there are
	held     []netip.Prefix     // what it guarded, for the next judgement
}

// made is an entry that stands for another.
type made struct{ of, entry *topology.Entry }

// Before takes what a run before served, as far as that was kept, whether it knew which pods there are, and what it
// guarded: ClusterIPs one by one, also of Services that were not kept.
func (c *ClusterIPs) Before(kept *topology.Snapshot, sure bool, held []netip.Prefix) {
	c.kept, c.sure, c.held = kept, sure, nil
	if kept != nil {
		c.out = nil // judged while that was not known
	}
	for _, p := range held {
		if p.IsSingleIP() {
			c.held = append(c.held, p)
		}
	}
	slices.SortFunc(c.held, topology.ComparePrefix)
}

// Any reports whether something was left out of the last snapshot.
func (c *ClusterIPs) Any() bool { return len(c.made) > 0 }

// Next returns what to use in the place of a snapshot: itself where all is right. It costs O(changed)
// as long as the judgement goes by the same.
func (c *ClusterIPs) Next(snap *topology.Snapshot, by Own) *topology.Snapshot {
	prev, last := c.raw, c.made
	if again := c.kept != nil || c.made == nil || !c.by.equal(by); again {
		prev, c.made = nil, map[topology.ObjectKey]made{}
	}
	for key := range snap.Changed(prev) {
		was := last[key]
		delete(c.made, key)
		entry, _ := snap.Services.Get(key)
		if entry == nil || entry.Service == nil {
			continue
		}
		if s := c.service(entry.Service, by); s != entry.Service {
			is := *entry
			if is.Service = s; was.of != entry || !was.entry.Service.Equal(s) {
				was = made{entry, &is}
			}
			c.made[key] = was
		}
	}
	c.raw, c.out, c.by, c.kept = snap, snap, by, nil
	if !snap.Partial { // else what was held is of Services that are yet to come
		c.held = nil
	}
	if len(c.made) > 0 {
		out, edit := *snap, snap.Services.Edit()
		for key, m := range c.made {
			edit.Set(key, m.entry)
		}
		out.Services = edit.Freeze()
		c.out = &out
	}
	return c.out
}

// service is a Service without the ClusterIPs that it may not have.
func (c *ClusterIPs) service(s *topology.Service, by Own) *topology.Service {
	if s.Key == APIService { // which leads to it
		return s
	}
	out := s
	for _, ip := range s.ClusterIPs {
		whose := by.whose(ip)
		if whose == "" || whose == notInForce && c.wasHeld(ip) || !within(by.Node, ip) && c.served(s.Key, ip, within(by.Pods, ip)) {
			continue
		}
		if out == s {
			is := *s
			is.Problems = slices.Clone(s.Problems)
			out = &is
		}
		out.ClusterIPs = slices.DeleteFunc(slices.Clone(out.ClusterIPs), func(o netip.Addr) bool { return o == ip })
		out.Problems = append(out.Problems, topology.Problem{Object: "service " + s.Key.String(), Field: "spec.clusterIPs", Text: fmt.Sprintf(
			"%s is %s, and is not served for a Service: who is there would be cut off from this node; make the Service again, with an address of another range or without one", ip, whose)})
	}
	return out
}

// APIService is the Service of the API server.
var APIService = topology.ObjectKey{Namespace: "default", Name: "kubernetes"}

// served reports whether a Service had its ClusterIP before, by who knew the pods where it is one's.
func (c *ClusterIPs) served(key topology.ObjectKey, ip netip.Addr, pod bool) bool {
	had := func(snap *topology.Snapshot, sure bool) bool {
		if snap == nil || pod && !sure {
			return false
		}
		entry, _ := snap.Services.Get(key)
		return entry != nil && entry.Service != nil && slices.Contains(entry.Service.ClusterIPs, ip)
	}
	return had(c.out, len(c.by.Pods) > 0) || had(c.kept, c.sure)
}

// wasHeld reports whether a run before guarded an address by itself: in a range that is not in force nobody is cut off
// by it that was not.
func (c *ClusterIPs) wasHeld(ip netip.Addr) bool {
	_, was := slices.BinarySearchFunc(c.held, netip.PrefixFrom(ip, ip.BitLen()), topology.ComparePrefix)
	return was
}

// notInForce is whose an address is that is nobody's own.
const notInForce = "in a ServiceCIDR that is not in force (finding " + string(Overlap) + ")"

// whose says who has an address already; "" for nobody. Where all ranges of a family are refused, its
// Services are in them, and are judged by their addresses alone.
func (o Own) whose(ip netip.Addr) string {
	switch family := ofFamily(o.Guarded, netip.PrefixFrom(ip, ip.BitLen())); {
	case within(o.Guarded, ip):
		return ""
	case within(o.Node, ip):
		return "an address of this node"
	case within(o.Pods, ip):
		return "an address of this node's pods"
	case within(o.Servers, ip):
		return "an address of the API server"
	case within(o.Refused, ip) && len(family) > 0:
		return notInForce
	}
	return ""
}

func within(list []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
}
