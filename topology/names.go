package topology

import (
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Member is one endpoint that the name of a headless Service stands for.
type Member struct {
	*Endpoint
	Ports []SlicePort
}

// Pod is one ready endpoint with a name of its own below its Service's: its
// hostname, and its ordinal.
type Pod struct {
	*Endpoint
	Ports []SlicePort
	// Ordinal is the name {set}-{i} of the pod {set}-{unit}-{i}; "" for none.
	Ordinal string
	// Own: the pod is of this node's unit, so that here the ordinal means it,
	// whatever a rule says of it.
	Own bool
	// Reason says why the Service's name does not stand for the endpoint; "" means
	// that it does.
	Reason string
}

// Named yields the ready endpoints that have a name below the Service's. Those
// of a Service with a ClusterIP and without keys are not in Pods: any node may
// use each of them, there may be a hundred thousand, and few are asked for by
// name.
func (s *ServiceView) Named() iter.Seq[Pod] {
	return func(yield func(Pod) bool) {
		for _, p := range s.Pods {
			if !yield(p) {
				return
			}
		}
		for _, slice := range s.slices {
			for i := range slice.Endpoints {
				if ep := &slice.Endpoints[i]; ep.Ready && !yield(Pod{Endpoint: ep, Ports: slice.Ports}) {
					return
				}
			}
		}
	}
}

// names decides what the names of a Service stand for. The families are one:
// what a unit lacks in one it does not get from elsewhere. Readiness alone
// counts, as the DNS specification has it.
func (e *evaluation) names(view *ServiceView, entry *Entry) {
	headless := entry.Service.Headless
	if keys := entry.unitKeys(); len(keys) > 0 {
		view.UnitKey = keys[0] // the reading opens a Service, and renames no pod
	}
	if !headless && view.UnitKey == "" && view.Keys.Mode == NoKeys {
		if !entry.Service.Foreign {
			view.slices = entry.Slices
		}
		return
	}
	var nearest []candidate
	view.Pods, nearest = e.pods(view, entry.Slices, true)
	if headless {
		view.Members = members(nearest)
	}
	if e.opts.Ordinals == OrdinalsAll && view.UnitKey != "" {
		view.Waiting = e.waiting(view, entry.Slices)
	}
}

// pods are the endpoints that are ready, or are not, and those of them that
// the Service's name stands for.
func (e *evaluation) pods(view *ServiceView, from []*Slice, ready bool) ([]Pod, []candidate) {
	var pods []Pod
	var list []candidate
	for _, slice := range from {
		for i := range slice.Endpoints {
			if ep := &slice.Endpoints[i]; ep.Ready == ready {
				list = append(list, candidate{Endpoint: ep, slice: slice, pod: int32(len(pods))})
				pods = append(pods, Pod{Endpoint: ep, Ports: slice.Ports, Ordinal: e.ordinal(view.UnitKey, ep)})
			}
		}
	}
	q := &question{evaluation: e, scope: forNames, keys: view.Keys}
	q.leave = func(c candidate, by *rule) { pods[c.pod].Reason = by.reason }
	tiers := q.tiers(list)
	for i := range pods {
		pods[i].Own = e.shares(view.UnitKey, pods[i].Node)
	}
	if len(tiers) == 0 {
		return slices.Clip(pods), nil
	}
	return slices.Clip(pods), tiers[0].list
}

// waiting are the own unit's pods that are not ready and have an ordinal that
// no ready one has.
func (e *evaluation) waiting(view *ServiceView, from []*Slice) []Pod {
	taken := map[string]bool{}
	for _, p := range view.Pods {
		if p.Own {
			taken[p.Ordinal] = true
		}
	}
	pods, _ := e.pods(view, from, false)
	pods = slices.DeleteFunc(pods, func(p Pod) bool { return !p.Own || p.Ordinal == "" || taken[p.Ordinal] })
	if len(pods) == 0 {
		return nil
	}
	return pods
}

// members are the candidates by address, each address once.
func members(list []candidate) []Member {
	if len(list) == 0 {
		return nil
	}
	seen := make(map[netip.Addr]bool, len(list))
	out := make([]Member, 0, len(list))
	for _, c := range list {
		if !seen[c.Addr] {
			seen[c.Addr] = true
			out = append(out, Member{c.Endpoint, c.slice.Ports})
		}
	}
	slices.SortFunc(out, func(a, b Member) int { return a.Addr.Compare(b.Addr) })
	return out
}

// ordinal is the name {set}-{i} of the pod {set}-{unit}-{i}, or "". The unit
// is cut off where it ends, so that one that occurs in the set's name does no
// harm.
func (e *evaluation) ordinal(unitKey string, ep *Endpoint) string {
	if unitKey == "" || ep.Hostname == "" {
		return ""
	}
	unit := e.unit(ep.Node, unitKey)
	if unit == "" {
		return ""
	}
	hostname := strings.ToLower(ep.Hostname)
	at := strings.LastIndexByte(hostname, '-')
	if at < 0 {
		return ""
	}
	base, number := hostname[:at], hostname[at+1:]
	if i, err := strconv.ParseUint(number, 10, 32); err != nil || strconv.FormatUint(i, 10) != number {
		return ""
	}
	set, ok := strings.CutSuffix(base, "-"+strings.ToLower(unit))
	if !ok || set == "" {
		return ""
	}
	return set + "-" + number
}
