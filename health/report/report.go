package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/shield"
	"github.com/gridmesh/gridmesh/topology"
)

// Config is how those work whose work is shown.
type Config struct {
	UnitKey   string // the label of Nodes whose value is their unit
	Namespace string // of the list and of the units' Leases, for messages
	Rules     shield.Config
	// Renew is how often the list of shielded nodes is written, and Expiry for how long an
	// entry counts (gridmesh-controller).
	Renew, Expiry time.Duration
	// Grace is after how long without a heartbeat Kubernetes takes a node for lost
	// (--node-monitor-grace-period), and Tolerated how long after its taint a pod is evicted
	// (the default toleration).
	Grace, Tolerated time.Duration
}

// Default is with the defaults of all of them. It needs a UnitKey.
func Default() Config {
	return Config{
		Namespace: "gridmesh", Rules: shield.Default(), Renew: time.Minute, Expiry: 5 * time.Minute,
		Grace: 50 * time.Second, Tolerated: 5 * time.Minute,
	}
}

// Report is what is shown.
type Report struct {
	Now     time.Time `json:"now"`
	UnitKey string    `json:"unitKey,omitempty"`
	// Units are sorted, those in trouble first. Nodes without a unit are none's.
	Units    []Unit    `json:"units"`
	Matrices []*Matrix `json:"matrices,omitempty"`
	// Problems are what contradicts itself, or cannot be read.
	Problems []topology.Problem `json:"-"`
	// Notes are what is to be known of the whole.
	Notes []string `json:"-"`
}

// maker makes a report.
type maker struct {
	cfg      Config
	now      time.Time
	state    *State
	beats    map[string]time.Time // when a kubelet renewed its Lease, by Node
	unseen   int                  // nodes with names.UnseenTaint
	lost     int                  // nodes
	problems []topology.Problem
	notes    []string
}

// Of makes a report of what is known at a time.
func Of(s *State, cfg Config, now time.Time) *Report {
	m := &maker{cfg: cfg, now: now, state: s, beats: map[string]time.Time{}}
	for i := range s.Leases {
		if l := &s.Leases[i]; l.Namespace == heartbeats && l.Spec.RenewTime != nil {
			m.beats[l.Name] = l.Spec.RenewTime.Time
		}
	}
	r := &Report{Now: now.UTC(), UnitKey: cfg.UnitKey, Units: m.units(), Matrices: MatricesOf(s.Told)}
	m.listFaults(r.Units)
	m.viewFaults(r.Matrices)
	m.clockNotes()
	slices.SortStableFunc(m.problems, func(a, b topology.Problem) int { return strings.Compare(a.String(), b.String()) })
	r.Problems, r.Notes = m.problems, m.notes
	return r
}

// units are all units, with their nodes.
func (m *maker) units() []Unit {
	of := map[string]*seenUnit{}
	unit := func(name string) *seenUnit {
		if of[name] == nil {
			of[name] = &seenUnit{name: name}
		}
		return of[name]
	}
	for i := range m.state.Nodes {
		n := &m.state.Nodes[i]
		name := n.Labels[m.cfg.UnitKey]
		if m.cfg.UnitKey == "" || name == "" {
			continue
		}
		s := m.see(n)
		u := unit(name)
		if u.nodes = append(u.nodes, s); !s.lost {
			u.alive++
		}
		if s.unseen {
			u.unseen++
			m.unseen++
		}
	}
	for _, l := range m.state.unitLeases() {
		m.lease(unit(l.Labels[names.UnitLease]), l)
	}
	list := []Unit{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		list = append(list, m.unit(of[name]))
	}
	slices.SortStableFunc(list, func(a, b Unit) int { return cmp.Compare(rank(a.Trouble), rank(b.Trouble)) })
	return list
}

func rank(trouble bool) int {
	if trouble {
		return 0
	}
	return 1
}

// past is a stamp, or now where it is ahead: nothing was seen after that.
func (m *maker) past(t time.Time) time.Time {
	if t.After(m.now) {
		return m.now
	}
	return t
}

// Unit is the report of one unit alone; false where there is none.
func (r *Report) Unit(name string) (*Report, bool) {
	return r.only(func(u *Unit) bool { return u.Name == name }, func(*Node) bool { return true })
}

// Node is the report of one node alone; false where it is not there, or in no unit.
func (r *Report) Node(name string) (*Report, bool) {
	is := func(n *Node) bool { return n.Name == name }
	return r.only(func(u *Unit) bool { return slices.ContainsFunc(u.Nodes, func(n Node) bool { return is(&n) }) }, is)
}

func (r *Report) only(unit func(*Unit) bool, node func(*Node) bool) (*Report, bool) {
	out := *r
	out.Units, out.Matrices, out.Problems = []Unit{}, nil, nil
	about := map[string]bool{}
	for _, u := range r.Units {
		if !unit(&u) {
			continue
		}
		u.Nodes = slices.DeleteFunc(slices.Clone(u.Nodes), func(n Node) bool { return !node(&n) })
		out.Units = append(out.Units, u)
		for _, n := range u.Nodes {
			about["node "+n.Name], about["data["+n.Name+"]"] = true, true
		}
		about[u.object] = true
	}
	for _, x := range r.Matrices {
		if slices.ContainsFunc(out.Units, func(u Unit) bool { return u.Name == x.Unit }) || unit(&Unit{Name: x.Unit}) {
			out.Matrices = append(out.Matrices, x)
			about["unit "+x.Unit] = true
		}
	}
	for _, p := range r.Problems {
		kind, _, _ := strings.Cut(p.Object, " ")
		object, _, _ := strings.Cut(p.Object, " (")
		others := kind == "node" || kind == "lease" || kind == "unit" || strings.HasPrefix(p.Field, "data[") // what is not of all
		if about[object] || about[p.Field] || !others {
			out.Problems = append(out.Problems, p)
		}
	}
	return &out, len(out.Units)+len(out.Matrices) > 0
}
