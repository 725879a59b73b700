package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/gridmesh/gridmesh/health/shield"
)

// Bounds of what is shown without Wide.
const (
	mostUnits = 50
	mostNodes = 100
)

// Shown is which part of a report people want.
type Shown struct {
	// All nodes and units, and not those alone that are in trouble.
	All bool
	// Wide has more columns: heartbeats, taints, and who wrote a verdict.
	Wide bool
}

// WriteText writes a report for people: units, those in trouble first; nodes; and who sees
// whom, where daemons said that.
func (r *Report) WriteText(w io.Writer, shown Shown) error {
	var parts []string
	if len(r.Units) > 0 {
		parts = append(parts, r.unitLines(shown), r.nodeLines(shown))
	}
	for _, x := range r.Matrices {
		var b strings.Builder
		_ = x.WriteText(&b)
		parts = append(parts, b.String())
	}
	text := ""
	for _, part := range parts {
		if part != "" && text != "" {
			text += "\n"
		}
		text += part
	}
	_, err := io.WriteString(w, text)
	return err
}

func (r *Report) unitLines(shown Shown) string {
	head := []string{"UNIT", "NODES", "READY", "VOTERS", "LEADER", "RENEWED", "UPLINK", "STATE"}
	if shown.Wide {
		head = append(head[:7:7], "LEADS SINCE", "CHANGES", "STATE")
	}
	rows, more := [][]string{head}, 0
	for i := range r.Units {
		u := &r.Units[i]
		if len(rows) > mostUnits && !shown.All && !u.Trouble {
			more++
			continue
		}
		rows = append(rows, r.unitRow(u, shown))
	}
	lines := columns(rows)
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more, which are %s (-o wide has them)", more, OK))
	}
	return strings.Join(lines, "\n") + "\n"
}

func (r *Report) unitRow(u *Unit, shown Shown) []string {
	voters, leader, renewed := "-", "-", "-"
	if v := u.Voters; v != nil {
		voters = fmt.Sprintf("%d of %d", v.Answered, v.Of)
		if shown.Wide {
			voters += ", " + since(r.Now, v.At)
		}
	}
	var led []string
	if l := u.Leader; l != nil {
		leader, renewed = dash(l.Node), since(r.Now, l.Renewed)
		led = []string{since(r.Now, l.Since), fmt.Sprint(l.Changes)}
	} else {
		led = []string{"-", "-"}
	}
	row := []string{u.Name, fmt.Sprint(u.Size), fmt.Sprint(u.Ready), voters, leader, renewed, u.Uplink}
	if shown.Wide {
		row = append(row, led...)
	}
	return append(row, u.State)
}

// nodeLines have a row for each node, and below it why, and what is next.
func (r *Report) nodeLines(shown Shown) string {
	head := []string{"NODE", "UNIT", "UNIT SAYS", "CLOUD SAYS", "ACTION", "KEPT UNTIL"}
	if shown.Wide {
		head = append(head, "HEARTBEAT", "TAINTS", "VERDICT BY")
	}
	rows, below := [][]string{head}, [][]string{nil}
	more := 0
	for i := range r.Units {
		u := &r.Units[i]
		for j := range u.Nodes {
			n := &u.Nodes[j]
			if !shown.All && !n.Trouble {
				continue
			}
			if len(rows) > mostNodes && !shown.All {
				more++
				continue
			}
			rows, below = append(rows, r.nodeRow(u, n, shown.Wide)), append(below, r.below(n))
		}
	}
	if len(rows) == 1 {
		return ""
	}
	var b strings.Builder
	for i, line := range columns(rows) {
		fmt.Fprintln(&b, line)
		for _, text := range below[i] {
			fmt.Fprintln(&b, "  "+printable(text))
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "and %d more nodes that are not as they should be (-o wide has them, or --unit)\n", more)
	}
	return b.String()
}

func (r *Report) nodeRow(u *Unit, n *Node, wide bool) []string {
	action := n.Action
	if action == shield.Nothing.String() && !n.Trouble {
		action = "-"
	}
	row := []string{n.Name, u.Name, r.said(n), cloudWord(n) + " " + since(r.Now, n.Cloud.Since), action, r.keptUntil(n)}
	if !wide {
		return row
	}
	var taints []string
	for _, t := range n.Cloud.Taints {
		taints = append(taints, shortTaint(t))
	}
	by := "-"
	if e := n.Says.Evidence; e != nil {
		by = dash(e.By)
	}
	return append(row, since(r.Now, n.Cloud.Heartbeat), dash(strings.Join(taints, ",")), by)
}

// shortTaint is a taint without the prefix that most have.
func shortTaint(t Taint) string {
	return strings.TrimPrefix(t.Key, "node.kubernetes.io/") + ":" + t.Effect
}

// said is the unit's word on a node: well, 3 of 4 see it, 12s ago.
func (r *Report) said(n *Node) string {
	e := n.Says.Evidence
	if e == nil {
		return n.Says.Verdict
	}
	text := fmt.Sprintf("%s, %d of %d see it", n.Says.Verdict, e.Yes, e.Of)
	if e.At != nil {
		text += ", " + since(r.Now, e.At) + " ago"
	}
	return text
}

// cloudWord is the condition Ready, as kubectl has it.
func cloudWord(n *Node) string {
	switch n.Cloud.Ready {
	case "True":
		return "Ready"
	case "False":
		return "NotReady"
	}
	return "Unknown"
}

func (r *Report) keptUntil(n *Node) string {
	if n.KeptUntil != nil && !n.KeptUntil.After(r.Now) {
		return "expired"
	}
	return clock(r.Now, n.KeptUntil)
}

// below is what stands below a node's row.
func (r *Report) below(n *Node) (lines []string) {
	if !n.Trouble {
		return nil
	}
	lines = append(lines, "why:  "+n.Why)
	for i, x := range n.Next {
		switch i {
		case 0:
			lines = append(lines, "next: "+r.when(x))
		case len(n.Next) - 1: // what is between is a row of WriteNode's
			lines = append(lines, "then: "+r.when(x))
		}
	}
	return lines
}

// when is something that is to happen, with its time.
func (r *Report) when(x Next) string {
	switch {
	case x.At == nil:
		return x.What
	case x.At.After(r.Now):
		return fmt.Sprintf("at %s (in %s) %s", clock(r.Now, x.At), age(x.At.Sub(r.Now)), x.What)
	}
	return fmt.Sprintf("at %s (%s ago) %s", clock(r.Now, x.At), age(r.Now.Sub(*x.At)), x.What)
}
