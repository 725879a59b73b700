package report

import (
	"fmt"
	"io"
	"strings"
)

// WriteNode writes all that is known of the one node of a report, for people, a line a fact.
func (r *Report) WriteNode(w io.Writer) error {
	for i := range r.Units {
		for j := range r.Units[i].Nodes {
			if _, err := io.WriteString(w, r.nodeText(&r.Units[i], &r.Units[i].Nodes[j])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Report) nodeText(u *Unit, n *Node) string {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s  %s\n", what, printable(fmt.Sprintf(format, args...)))
	}
	line("node", "%s, of unit %s (%d nodes, %s)", n.Name, u.Name, u.Size, u.State)
	line("leader", "%s", r.leaderText(u))
	line("unit says", "%s", r.said(n))
	if e := n.Says.Evidence; e != nil {
		who := "those that observe it"
		if e.Exact {
			who = "all of the unit, asked one by one"
		}
		line("", "%d yes, %d no of %d: %s; written by %s", e.Yes, e.No, e.Of, who, dash(e.By))
		if e.Cut {
			line("", "it says itself that it has no uplink")
		}
	}
	line("cloud", "%s for %s%s", cloudWord(n), since(r.Now, n.Cloud.Since), inBrackets(n.Cloud.Reason))
	line("heartbeat", "%s", ago(since(r.Now, n.Cloud.Heartbeat)))
	for _, t := range n.Cloud.Taints {
		text := t.Key + ":" + t.Effect
		if t.Since != nil {
			text += ", since " + clock(r.Now, t.Since)
		}
		line("taint", "%s", text)
	}
	line("action", "%s: %s", n.Action, n.Why)
	switch {
	case n.KeptUntil == nil:
		line("kept", "it is not on the list of nodes whose pods stay")
	case n.KeptUntil.After(r.Now):
		line("kept", "its pods stay until %s (%s from now), and longer where that is renewed", clock(r.Now, n.KeptUntil), age(n.KeptUntil.Sub(r.Now)))
	default:
		line("kept", "its entry ended at %s: it does not count any more", clock(r.Now, n.KeptUntil))
	}
	for _, x := range n.Next {
		line("next", "%s", r.when(x))
	}
	if len(n.Next) == 0 {
		line("next", "nothing, while all of them go on as they do")
	}
	return b.String()
}

func (r *Report) leaderText(u *Unit) string {
	if u.Leader == nil {
		return "nobody: the unit has no Lease"
	}
	return fmt.Sprintf("%s, renewed %s; uplink: %s", dash(u.Leader.Node), ago(since(r.Now, u.Leader.Renewed)), u.Uplink)
}

func ago(text string) string {
	if text == "-" {
		return "unknown"
	}
	return text + " ago"
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
