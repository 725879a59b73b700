package topology

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/table"
)

// Snapshot is an immutable state of the cluster as far as routing needs it.
type Snapshot struct {
	Services *table.Map[ObjectKey, *Entry]
	Nodes    *table.Map[string, *Node]
	// ServiceCIDRs are the ranges of ClusterIPs, sorted.
	ServiceCIDRs []netip.Prefix
	// Problems are mistakes that belong to no object that could be kept, as a
	// file that is no YAML.
	Problems []Problem
	// Partial: it lacks what a node can do without; what is not in it may exist
	// all the same. See source.Subset.
	Partial bool
	// Dead are nodes that their unit's vote calls dead, sorted, where that is to count: no
	// object of the API says so (WithDead).
	Dead []string

	triggers  []time.Time // when the latest changes began, the newest last
	triggered uint64      // how many there were since the builder's start
}

// maxTriggers is how many times of triggers a snapshot remembers.
const maxTriggers = 10_000

// TriggersSince returns when the changes that lead from prev to s began, as
// far as that was noted (Builder.AddTrigger); of more than 10 000 the newest.
// prev is an earlier snapshot of the same Builder, however many were made in
// between; nil, or one without triggers, gives all of them. What is returned must not
// be written to.
func (s *Snapshot) TriggersSince(prev *Snapshot) []time.Time {
	n := s.triggered
	if prev != nil {
		n -= min(n, prev.triggered)
	}
	return s.triggers[len(s.triggers)-int(min(n, uint64(len(s.triggers)))):]
}

// Entry is a Service with its slices. Service is nil while only slices of
// that name are known: such an entry serves nothing.
type Entry struct {
	Service *Service
	Slices  []*Slice // sorted by key
	keys    Keys
}

// service is the entry's Service; of no entry none.
func (e *Entry) service() *Service {
	if e == nil {
		return nil
	}
	return e.Service
}

// Keys is the parsed topologyKeys annotation.
func (e *Entry) Keys() Keys { return e.keys }

// unitKeys are the labels of nodes that the Service depends on, the first of
// them its units'. A grid's that has no keys, or malformed ones, has units too.
func (e *Entry) unitKeys() []string {
	switch {
	case len(e.keys.List) > 0:
		return e.keys.List
	case e.Service != nil && e.Service.GridKey != "":
		return []string{e.Service.GridKey}
	}
	return nil
}

// Builder makes snapshots, each from the one before. It has one owner.
type Builder struct {
	services *table.Edit[ObjectKey, *Entry]
	nodes    *table.Edit[string, *Node]
	owner    map[ObjectKey]ObjectKey // slice -> Service
	own      map[ObjectKey]bool      // Services whose list of slices no snapshot has: it is written to
	cidrs    []netip.Prefix
	problems []Problem

	triggers  []time.Time
	triggered uint64
}

// NewBuilder starts from nothing.
func NewBuilder() *Builder {
	return &Builder{
		services: (*table.Map[ObjectKey, *Entry])(nil).Edit(),
		nodes:    (*table.Map[string, *Node])(nil).Edit(),
		owner:    map[ObjectKey]ObjectKey{},
		own:      map[ObjectKey]bool{},
	}
}

// Build returns what was set so far as a Snapshot; the builder goes on.
func (b *Builder) Build() *Snapshot {
	if len(b.own) > 0 {
		b.own = map[ObjectKey]bool{} // and not clear, which keeps the largest batch's room
	}
	return &Snapshot{
		Services:     b.services.Freeze(),
		Nodes:        b.nodes.Freeze(),
		ServiceCIDRs: b.cidrs,
		Problems:     b.problems,
		triggers:     slices.Clip(b.triggers[max(0, len(b.triggers)-maxTriggers):]),
		triggered:    b.triggered,
	}
}

// AddTrigger notes when a change that was just made began: what somebody did
// to the cluster, before it came here as an object.
func (b *Builder) AddTrigger(at time.Time) {
	if len(b.triggers) == 2*maxTriggers { // snapshots go on holding the old array
		b.triggers = slices.Clone(b.triggers[maxTriggers:])
	}
	b.triggers = append(b.triggers, at)
	b.triggered++
}

// SetService adds or replaces a Service and reports whether anything changed.
func (b *Builder) SetService(s *Service) bool {
	old, _ := b.services.Get(s.Key)
	if old == nil {
		b.services.Set(s.Key, &Entry{Service: s, keys: keysIn(s)})
		return true
	}
	if old.Service != nil && old.Service.Equal(s) {
		return false
	}
	b.services.Set(s.Key, &Entry{Service: s, Slices: old.Slices, keys: keysIn(s)})
	return true
}

// DeleteService removes a Service; its slices stay until they are deleted.
func (b *Builder) DeleteService(key ObjectKey) bool {
	old, _ := b.services.Get(key)
	if old == nil || old.Service == nil {
		return false
	}
	if len(old.Slices) == 0 {
		b.services.Delete(key)
	} else {
		b.services.Set(key, &Entry{Slices: old.Slices})
	}
	return true
}

// SetSlice adds or replaces an EndpointSlice and reports whether anything changed.
func (b *Builder) SetSlice(s *Slice) bool {
	service := ObjectKey{s.Key.Namespace, s.Service}
	if was, had := b.owner[s.Key]; had && was != service {
		b.DeleteSlice(s.Key)
	}
	old, _ := b.services.Get(service)
	if old == nil {
		old = &Entry{}
	}
	i, found := slices.BinarySearchFunc(old.Slices, s.Key, bySliceKey)
	if found && old.Slices[i].Equal(s) {
		return false
	}
	next := *old
	next.Slices = b.slicesOf(service, old)
	if found {
		next.Slices[i] = s
	} else {
		next.Slices = slices.Insert(next.Slices, i, s)
	}
	b.owner[s.Key] = service
	b.services.Set(service, &next)
	return true
}

// slicesOf returns the slices of a Service's entry for the builder to write to: a
// Service with many, which come in one batch, has its list copied once.
func (b *Builder) slicesOf(service ObjectKey, e *Entry) []*Slice {
	if b.own[service] {
		return e.Slices
	}
	b.own[service] = true
	return slices.Clone(e.Slices)
}

// DeleteSlice removes an EndpointSlice.
func (b *Builder) DeleteSlice(key ObjectKey) bool {
	service, had := b.owner[key]
	if !had {
		return false
	}
	delete(b.owner, key)
	old, _ := b.services.Get(service)
	next := *old
	i, _ := slices.BinarySearchFunc(old.Slices, key, bySliceKey)
	next.Slices = slices.Delete(b.slicesOf(service, old), i, i+1)
	if next.Service == nil && len(next.Slices) == 0 {
		b.services.Delete(service)
	} else {
		b.services.Set(service, &next)
	}
	return true
}

func bySliceKey(s *Slice, key ObjectKey) int { return s.Key.Compare(key) }

// SetNode adds or replaces a node and reports whether anything changed.
func (b *Builder) SetNode(n *Node) bool {
	if old, _ := b.nodes.Get(n.Name); old != nil && old.Equal(n) {
		return false
	}
	b.nodes.Set(n.Name, n)
	return true
}

// DeleteNode removes a node.
func (b *Builder) DeleteNode(name string) bool {
	if _, had := b.nodes.Get(name); !had {
		return false
	}
	b.nodes.Delete(name)
	return true
}

// SetServiceCIDRs replaces the ranges of ClusterIPs.
func (b *Builder) SetServiceCIDRs(cidrs []netip.Prefix) bool {
	cidrs = slices.Clone(cidrs)
	slices.SortFunc(cidrs, ComparePrefix)
	cidrs = slices.Compact(cidrs)
	if slices.Equal(cidrs, b.cidrs) {
		return false
	}
	b.cidrs = cidrs
	return true
}

// SetProblems replaces the problems that belong to no kept object.
func (b *Builder) SetProblems(problems []Problem) bool {
	if slices.Equal(problems, b.problems) {
		return false
	}
	b.problems = slices.Clone(problems)
	return true
}

// ComparePrefix orders prefixes by address, then length.
func ComparePrefix(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}
