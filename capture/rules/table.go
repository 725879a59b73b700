package rules

import (
	"fmt"
	"strings"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// Name is the name of gridmesh's own tables.
const Name = "gridmesh"

// Table is one nftables table.
type Table struct {
	Family string // inet or bridge
	Name   string
	Sets   []Set
	Chains []Chain

	cfg plan.Config // what the route of marked packets and the ports follow
}

// Set is a named set without its elements.
type Set struct {
	Name     string
	Type     []string // several: a concatenation
	Interval bool
	Timeout  bool // elements may go by themselves
	// Data is what a map leads to: "verdict" or, as Type, its fields; nil for a set.
	Data    []string
	Dynamic bool   // rules write into it
	Size    uint32 // as many elements at most; 0 for any number
}

// Chain is a list of rules. One without a hook is only jumped to.
type Chain struct {
	Name  string
	Hook  *Hook
	Rules []Rule
}

// Hook is where a base chain sits in the way of a packet.
type Hook struct {
	Type     Type
	Point    Point
	Priority int
}

// Type is the type of a base chain.
type Type string

// The types of base chains.
const (
	Filter  Type = "filter"
	Reroute Type = "route" // routes again what changed its mark
	NAT     Type = "nat"   // sees the first packet of a connection only
)

// Point is a hook of netfilter.
type Point string

// The hooks of netfilter.
const (
	Prerouting  Point = "prerouting"
	Input       Point = "input"
	Forward     Point = "forward"
	Output      Point = "output"
	Postrouting Point = "postrouting"
)

// Rule is a list of terms: each must hold for the next to be looked at.
type Rule []Term

// String is the rule in the syntax of nft(8).
func (r Rule) String() string {
	words := make([]string, len(r))
	for i, t := range r {
		words[i] = t.String()
	}
	return strings.Join(words, " ")
}

// String is the table in the syntax of nft(8), as `nft -f` reads it.
func (t *Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s %s {\n", t.Family, t.Name)
	for _, s := range t.Sets {
		b.WriteString(s.head())
		if s.Interval {
			b.WriteString("\t\tflags interval\n")
		}
		if s.Timeout && s.Dynamic {
			b.WriteString("\t\tflags dynamic,timeout\n")
		} else if s.Timeout {
			b.WriteString("\t\tflags timeout\n")
		}
		b.WriteString("\t}\n")
	}
	// A chain that is jumped to must be known before.
	for _, c := range t.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
		if c.Hook != nil {
			fmt.Fprintf(&b, "\t\ttype %s hook %s priority %d; policy accept;\n", c.Hook.Type, c.Hook.Point, c.Hook.Priority)
		}
		b.WriteString("\t}\n")
	}
	for _, c := range t.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func (t *Table) chain(name string) *Chain {
	for i := range t.Chains {
		if t.Chains[i].Name == name {
			return &t.Chains[i]
		}
	}
	return nil
}
