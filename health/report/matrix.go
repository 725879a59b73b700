package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Matrix is who sees whom in a unit, by what daemons of it said. A daemon knows its own checks
// and those that others report to it: who leads knows nearly all.
type Matrix struct {
	Unit string    `json:"unit"`
	At   time.Time `json:"at"`   // of the newest that was said
	By   []string  `json:"by"`   // who said it, the newest first
	Rows []Row     `json:"rows"` // one of each node, by name
	// Views are who is in the unit, by who says so, where there is more than one.
	Views []string `json:"views,omitempty"`

	fresh time.Duration // for how long what was heard counts
}

// Row is what one node says, and who sees it.
type Row struct {
	Node   string     `json:"node"`
	Heard  *time.Time `json:"heard,omitempty"` // when it reported last; nil: it did not
	Uplink bool       `json:"uplink"`
	Holds  bool       `json:"holdsLease,omitempty"`
	Dead   bool       `json:"dead,omitempty"` // the unit voted so
	Sees   []Sees     `json:"sees"`           // those that it checks, by name
}

// Sees is what a node says of one that it checks.
type Sees struct {
	Node   string     `json:"node"`
	Answer string     `json:"answer"` // yes, no, abstain; none where nothing was heard
	At     *time.Time `json:"at,omitempty"`
}

// none is the answer that was not given.
const none = "none"

// MatricesOf are the matrices of the units that daemons said something of, by the units' names.
func MatricesOf(told []NodeStatus) (list []*Matrix) {
	of := map[string][]*NodeStatus{}
	for i := range told {
		if s := &told[i]; s.Unit != "" {
			of[s.Unit] = append(of[s.Unit], s)
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(of)) {
		list = append(list, matrixOf(unit, of[unit]))
	}
	return list
}

// matrixOf is that of a unit.
func matrixOf(unit string, told []*NodeStatus) *Matrix {
	slices.SortStableFunc(told, func(a, b *NodeStatus) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Node, b.Node)) })
	x := &Matrix{Unit: unit, At: told[0].At.UTC(), fresh: time.Duration(told[0].FreshSeconds * float64(time.Second))}
	rows := map[string]*Row{}
	cells := map[[2]string]*Sees{}
	views := map[string][]string{}
	for i, s := range told {
		if i == 0 || !slices.Contains(x.By, s.Node) {
			x.By = append(x.By, s.Node)
			views[s.View] = append(views[s.View], s.Node)
		}
		take(s, i == 0, rows, cells)
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		x.Rows = append(x.Rows, *rows[name])
	}
	at := map[string]int{}
	for i := range x.Rows {
		at[x.Rows[i].Node] = i
	}
	for _, pair := range slices.SortedFunc(maps.Keys(cells), func(a, b [2]string) int {
		return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
	}) {
		r := &x.Rows[at[pair[0]]]
		r.Sees = append(r.Sees, *cells[pair])
	}
	if len(views) > 1 {
		for _, view := range slices.Sorted(maps.Keys(views)) {
			x.Views = append(x.Views, fmt.Sprintf("%s by %s", cut(view), few(views[view])))
		}
	}
	return x
}

// take adds what one daemon said: of two words on a pair the newer counts. Who is in the unit
// the newest of them says.
func take(s *NodeStatus, newest bool, rows map[string]*Row, cells map[[2]string]*Sees) {
	for _, m := range s.Members {
		if newest {
			rows[m.Name] = &Row{Node: m.Name, Dead: slices.Contains(s.Dead, m.Name), Sees: []Sees{}}
		}
	}
	if newest {
		for _, m := range s.Members {
			for _, by := range m.Observers {
				if rows[by] != nil && by != m.Name {
					cells[[2]string{by, m.Name}] = &Sees{Node: m.Name, Answer: none}
				}
			}
		}
	}
	for i := range s.Reports {
		h := &s.Reports[i]
		at := s.at(h)
		if r := rows[h.From]; r != nil && (r.Heard == nil || at.After(*r.Heard)) {
			r.Heard, r.Uplink, r.Holds = stamp(at), h.Uplink, h.Holds
		}
		for _, seen := range h.Results {
			if c := cells[[2]string{h.From, seen.Node}]; c != nil && (c.At == nil || at.After(*c.At)) {
				c.Answer, c.At = seen.Answer, stamp(at)
			}
		}
	}
}

// old reports whether something that was heard counts no more.
func (x *Matrix) old(at *time.Time) bool { return at != nil && x.At.Sub(*at) > x.fresh+time.Second }

// seenBy is how many of those that check a node say that it is well, and how many there are.
func (x *Matrix) seenBy() map[string][2]int {
	of := map[string][2]int{}
	for i := range x.Rows {
		for _, c := range x.Rows[i].Sees {
			n := of[c.Node]
			if n[1]++; c.Answer == "yes" && !x.old(c.At) {
				n[0]++
			}
			of[c.Node] = n
		}
	}
	return of
}
