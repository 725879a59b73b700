package topology_test

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// checkAgainstTwin compares with the rules written the naive way: endpoint by
// endpoint, all Services, no index, straight from docs/topology.md.
func checkAgainstTwin(t *testing.T, snap *Snapshot, view *View, viewer *Viewer, opts Options, at string) {
	t.Helper()
	all := claimed(snap, viewer)
	lack := unguarded(all, viewer)
	for key, entry := range snap.Services.All() {
		sv, ok := view.Services.Get(key)
		if (entry.Service != nil) != ok {
			t.Fatalf("%s: %s in view: %v", at, key, ok)
		}
		if !ok {
			continue
		}
		if got, want := sv.Members, twinMembers(snap, entry, opts); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: members of %s: got %v, the twin says %v", at, key, got, want)
		}
		checkPods(t, snap, entry, sv, at)
		checkAbsentKeys(t, snap, entry, sv, at)
		checkOutside(t, all, lack[entry.Service], snap, entry, sv, opts, at)
		for _, f := range sv.Frontends {
			got := levels(f.Tiers)
			all := ends(entry, f)
			if sv.Keys.Mode == NoKeys {
				all = heirs(all)
			}
			usable := slices.ContainsFunc(all, func(e end) bool { return e.Ready || e.Serving && e.Terminating })
			if want := entry.Service.InternalLocal && len(f.Tiers) == 0 && usable && f.Path != PathNone; f.Silent != want {
				t.Fatalf("%s: %s %s: silent %v, the twin says %v", at, key, f.Frontend, f.Silent, want)
			}
			checkPath(t, entry.Service, sv, f, opts, at)
			want := twin(snap, entry, f, entry.Service.InternalLocal, opts)
			if f.Path == PathNone {
				want = map[string]string{}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %s %s: got %v, the twin says %v", at, key, f.Frontend, got, want)
			}
			checkDead(t, snap, f.Tiers, at)
		}
		for _, o := range sv.Outside {
			checkDead(t, snap, o.Tiers, at)
			checkDead(t, snap, o.LocalTiers, at)
		}
	}
}

// checkDead asks of every endpoint whether it is marked: where its node is voted dead, and
// that of another one is not, which is in its tier or in one that has a key.
func checkDead(t *testing.T, snap *Snapshot, tiers []Tier, at string) {
	t.Helper()
	for i, tier := range tiers {
		for _, e := range tier.Endpoints {
			want := false
			for j, other := range tiers {
				for _, o := range other.Endpoints {
					want = want || slices.Contains(snap.Dead, e.Node) && !slices.Contains(snap.Dead, o.Node) && (i == j || other.Key != "*")
				}
			}
			if e.Dead != want {
				t.Fatalf("%s: %+v of %v: marked %v, the twin says %v, of the dead %v", at, e, tiers, e.Dead, want, snap.Dead)
			}
		}
	}
}

// levels is the place of each endpoint's tier.
func levels(tiers []Tier) map[string]string {
	at := map[string]string{}
	for i, tier := range tiers {
		for _, ep := range tier.Endpoints {
			at[ep.Addr.String()] = fmt.Sprint(i)
		}
	}
	return at
}

// twinMembers asks every tier in turn for its ready endpoints.
func twinMembers(snap *Snapshot, entry *Entry, opts Options) []Member {
	keys := ParseKeys(entry.Service.TopologyKeys)
	if opts.Reading == Union && (keys.Mode == Malformed || keys.Any) {
		keys = Keys{}
	}
	if !entry.Service.Headless {
		return nil
	}
	me, _ := snap.Nodes.Get("n0")
	shares := func(node, key string) bool {
		it, _ := snap.Nodes.Get(node)
		return me != nil && it != nil && me.Labels[key] != "" && me.Labels[key] == it.Labels[key]
	}
	var nearer []func(node string) bool
	switch {
	case keys.Mode == Malformed:
		nearer = append(nearer, func(node string) bool { return node == "n0" })
	case keys.Mode == NoKeys || keys.Any && len(keys.List) == 0:
		nearer = append(nearer, func(string) bool { return true })
	default:
		for _, key := range keys.List {
			nearer = append(nearer, func(node string) bool { return shares(node, key) })
		}
		if keys.Any {
			nearer = append(nearer, func(string) bool { return true })
		}
	}
	found := map[netip.Addr]Member{} // of an address in several units, the nearest's
	for i, in := range nearer {
		for _, s := range entry.Slices {
			for _, ep := range s.Endpoints {
				if _, dup := found[ep.Addr]; ep.Ready && in(ep.Node) && !dup {
					found[ep.Addr] = Member{Endpoint: &ep, Ports: s.Ports}
				}
			}
		}
		if last := i == len(nearer)-1; len(found) > 0 && (last || opts.Reading == Ordered) {
			return slices.SortedFunc(maps.Values(found), func(a, b Member) int { return a.Addr.Compare(b.Addr) })
		}
	}
	return nil
}

// checkAbsentKeys asks every node for every key, unless the keys do nothing.
func checkAbsentKeys(t *testing.T, snap *Snapshot, entry *Entry, sv *ServiceView, at string) {
	t.Helper()
	vain := entry.Service.Headless && entry.Service.GridKey == "" && (len(sv.Keys.List) > 0 || sv.Keys.Mode == Malformed)
	if said := slices.ContainsFunc(sv.Problems, func(p Problem) bool { return strings.HasPrefix(p.Text, "does nothing: the Service is headless") }); said != vain {
		t.Fatalf("%s: %s: it is said that its keys do nothing: %v, want %v", at, sv.Key, said, vain)
	}
	for _, key := range entry.Keys().List {
		has := false
		for _, n := range snap.Nodes.All() {
			has = has || n.Labels[key] != ""
		}
		said := slices.ContainsFunc(sv.Problems, func(p Problem) bool { return strings.HasPrefix(p.Text, "no node has the label "+key+":") })
		if want := !has && !vain && snap.Nodes.Len() > 0; said != want {
			t.Fatalf("%s: %s: it is said that no node has %s: %v, want %v", at, sv.Key, key, said, want)
		}
	}
}

// checkPods asks of every endpoint, one by one: it has a name where it is ready;
// it may be used where its address is a member's; its ordinal is the own
// unit's where its node shares the first key's value.
func checkPods(t *testing.T, snap *Snapshot, entry *Entry, sv *ServiceView, at string) {
	t.Helper()
	keys, me := entry.Keys().List, &Node{}
	if len(keys) == 0 && entry.Service.GridKey != "" {
		keys = []string{entry.Service.GridKey}
	}
	if n, ok := snap.Nodes.Get("n0"); ok {
		me = n
	}
	pods := sv.Pods
	for _, s := range entry.Slices {
		for _, ep := range s.Endpoints {
			ordinal, unit := "", ""
			if n, ok := snap.Nodes.Get(ep.Node); ok && len(keys) > 0 {
				unit = n.Labels[keys[0]]
			}
			for _, set := range []string{"db", "my-db"} {
				for _, i := range []string{"0", "1"} {
					if unit != "" && ep.Hostname == set+"-"+unit+"-"+i {
						ordinal = set + "-" + i
					}
				}
			}
			if !ep.Ready || !entry.Service.Headless && len(keys) == 0 && sv.Keys.Mode == NoKeys {
				continue
			}
			if len(pods) == 0 {
				t.Fatalf("%s: %s lacks the pod %s", at, sv.Key, ep.Addr)
			}
			p := pods[0]
			pods = pods[1:]
			own := unit != "" && me.Labels[keys[0]] == unit
			if p.Addr != ep.Addr || p.Ordinal != ordinal || p.Own != own {
				t.Fatalf("%s: %s has %+v of %+v, want ordinal %q, own %v", at, sv.Key, p, *p.Endpoint, ordinal, own)
			}
			member := slices.ContainsFunc(sv.Members, func(m Member) bool { return m.Addr == ep.Addr })
			if entry.Service.Headless && p.Reason == "" && !member {
				t.Fatalf("%s: %s may use %s, which is no member", at, sv.Key, ep.Addr)
			}
		}
	}
	if len(pods) > 0 {
		t.Fatalf("%s: %s has %d pods too many", at, sv.Key, len(pods))
	}
	for _, m := range sv.Members {
		if !slices.ContainsFunc(sv.Pods, func(p Pod) bool { return p.Addr == m.Addr && p.Reason == "" }) {
			t.Fatalf("%s: %s has the member %s, and no pod of it may be used", at, sv.Key, m.Addr)
		}
	}
}

// end is an endpoint with what a frontend leads to.
type end struct {
	Endpoint
	to string
}

// ends are the endpoints of a frontend's port and family.
func ends(entry *Entry, f FrontendView) (list []end) {
	for _, s := range entry.Slices {
		for _, p := range s.Ports {
			if p.Name != f.PortName || p.Protocol != f.Protocol || s.IPv6 != f.Addr.Is6() {
				continue
			}
			for _, ep := range s.Endpoints {
				list = append(list, end{ep, netip.AddrPortFrom(ep.Addr, p.Port).String()})
			}
		}
	}
	return list
}

// twin is the level of the tier that each endpoint is in.
func twin(snap *Snapshot, entry *Entry, f FrontendView, local bool, opts Options) map[string]string {
	list := ends(entry, f)
	keys := ParseKeys(entry.Service.TopologyKeys)
	if opts.Reading == Union && (keys.Mode == Malformed || keys.Any) {
		keys = Keys{}
	}
	if keys.Mode == NoKeys { // in the cluster an address is one endpoint's
		list = heirs(list)
	}
	if local || keys.Mode == Malformed {
		list = slices.DeleteFunc(list, func(e end) bool { return e.Node != "n0" })
	}
	me, _ := snap.Nodes.Get("n0")
	tierOf := func(e end) int {
		it, _ := snap.Nodes.Get(e.Node)
		for i, k := range keys.List {
			if me != nil && it != nil && me.Labels[k] != "" && me.Labels[k] == it.Labels[k] {
				if opts.Reading == Union {
					return 0
				}
				return i
			}
		}
		if keys.Mode == OrderedKeys && !keys.Any {
			return -1
		}
		return len(keys.List)
	}
	groups := map[int][]end{}
	for _, e := range list {
		groups[tierOf(e)] = append(groups[tierOf(e)], e)
	}
	for i, group := range groups {
		groups[i] = heirs(group)
	}
	out, level := map[string]string{}, 0
	for i := 0; i <= len(keys.List); i++ {
		var ready, rest []end
		for _, e := range groups[i] {
			if e.Ready {
				ready = append(ready, e)
			} else if e.Serving && e.Terminating {
				rest = append(rest, e)
			}
		}
		if keys.Mode == NoKeys && !local {
			ready = hinted(me, ready)
		}
		if len(ready) == 0 {
			ready = rest
		}
		any := false
		for _, e := range ready {
			if _, nearer := out[e.to]; !nearer {
				out[e.to], any = fmt.Sprint(level), true
			}
		}
		if any {
			level++
		}
	}
	return out
}

// heirs are those that an address of a tier stands for: of its endpoints one that
// runs before one that ends; of those one of this node; of those one that is ready,
// then one that serves; of those the first by node, and one without a node last.
func heirs(group []end) (list []end) {
	done := map[string]bool{}
	for _, e := range group {
		if done[e.to] {
			continue
		}
		done[e.to] = true
		left := slices.DeleteFunc(slices.Clone(group), func(o end) bool { return o.to != e.to })
		for _, wanted := range []func(o end) bool{
			func(o end) bool { return !o.Terminating },
			func(o end) bool { return o.Node == "n0" },
			func(o end) bool { return o.Ready },
			func(o end) bool { return o.Serving },
			func(o end) bool { return o.Node != "" },
		} {
			if slices.ContainsFunc(left, wanted) {
				left = slices.DeleteFunc(left, func(o end) bool { return !wanted(o) })
			}
		}
		list = append(list, slices.MinFunc(left, func(a, b end) int { return strings.Compare(a.Node, b.Node) }))
	}
	return list
}

// hinted are the endpoints that hints leave.
func hinted(me *Node, ready []end) []end {
	all := func(has func(e end) bool) bool {
		return !slices.ContainsFunc(ready, func(e end) bool { return !has(e) })
	}
	only := func(has func(e end) bool) (list []end) {
		for _, e := range ready {
			if has(e) {
				list = append(list, e)
			}
		}
		return list
	}
	byNode := only(func(e end) bool { return slices.Contains(e.HintNodes, "n0") })
	var byZone []end
	if me != nil && me.Labels["topology.kubernetes.io/zone"] != "" {
		byZone = only(func(e end) bool { return slices.Contains(e.HintZones, me.Labels["topology.kubernetes.io/zone"]) })
	}
	switch {
	case all(func(e end) bool { return len(e.HintNodes) > 0 }) && len(byNode) > 0:
		return byNode
	case all(func(e end) bool { return len(e.HintZones) > 0 }) && len(byZone) > 0:
		return byZone
	}
	return ready
}
