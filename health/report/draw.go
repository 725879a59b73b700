package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mostDrawn is of how many nodes the matrix is drawn; of a larger unit only what is not well
// is named, mostPairs of it.
const (
	mostDrawn = 32
	mostPairs = 100
)

const legend = "+ well  x not well  ? it does not trust itself  ~ heard long ago  . nothing heard  (blank) does not check it"

// marks are how answers are drawn.
var marks = map[string]string{"yes": "+", "no": "x", "abstain": "?", none: "."}

// mark is how one is drawn.
func (x *Matrix) mark(c *Sees) string {
	if x.old(c.At) {
		return "~"
	}
	return marks[c.Answer]
}

// WriteText draws a matrix for people: who sees, a row each, whom, a column each.
func (x *Matrix) WriteText(w io.Writer) error {
	lines := []string{printable(fmt.Sprintf("who sees whom in unit %s, as %s knew at %s:", x.Unit, few(x.By), x.At.Format(time.RFC3339)))}
	if len(x.Rows) <= mostDrawn {
		lines = append(lines, x.drawn()...)
		lines = append(lines, legend)
	} else {
		lines = append(lines, x.named()...)
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// drawn is the whole matrix.
func (x *Matrix) drawn() []string {
	head, seen := []string{"", ""}, x.seenBy()
	for i := range x.Rows {
		head = append(head, strconv.Itoa(i+1))
	}
	rows := [][]string{append(head, "SEEN BY", "REPORT", "UPLINK", "")}
	for i := range x.Rows {
		r := &x.Rows[i]
		row := []string{strconv.Itoa(i + 1), r.Node}
		for j := range x.Rows {
			at := slices.IndexFunc(r.Sees, func(c Sees) bool { return c.Node == x.Rows[j].Node })
			switch {
			case i == j:
				row = append(row, "-")
			case at < 0:
				row = append(row, "")
			default:
				row = append(row, x.mark(&r.Sees[at]))
			}
		}
		n := seen[r.Node]
		rows = append(rows, append(row, fmt.Sprintf("%d of %d", n[0], n[1]), since(x.At, r.Heard), r.uplink(), r.words()))
	}
	lines := columns(rows)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func (r *Row) uplink() string {
	switch {
	case r.Heard == nil:
		return "-"
	case r.Uplink:
		return Yes
	}
	return No
}

// words are what else is known of a node.
func (r *Row) words() string {
	var list []string
	if r.Holds {
		list = append(list, "holds the Lease")
	}
	if r.Dead {
		list = append(list, "voted dead")
	}
	return strings.Join(list, ", ")
}

// named are the pairs that are not well, and who is silent.
func (x *Matrix) named() (lines []string) {
	pairs, silent := 0, []string{}
	rows := [][]string{{"NODE", "SEES", "ANSWER", "AGE"}}
	for i := range x.Rows {
		r := &x.Rows[i]
		if r.Heard == nil || x.old(r.Heard) {
			silent = append(silent, r.Node)
			continue
		}
		for j := range r.Sees {
			c := &r.Sees[j]
			if c.Answer == "yes" {
				continue
			}
			if pairs++; pairs <= mostPairs {
				rows = append(rows, []string{r.Node, c.Node, c.Answer, since(x.At, c.At)})
			}
		}
	}
	lines = append(lines, fmt.Sprintf("%d nodes; %d report to who said this", len(x.Rows), len(x.Rows)-len(silent)))
	if len(silent) > 0 {
		lines = append(lines, printable("no new report: "+few(silent)))
	}
	if pairs == 0 {
		return append(lines, "all of them see whom they check")
	}
	lines = append(lines, columns(rows)...)
	if more := pairs - mostPairs; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// WriteText writes a status for people, a line a fact, and the matrix.
func (s *NodeStatus) WriteText(w io.Writer) error {
	var lines []string
	line := func(what, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%-8s  %s", what, printable(fmt.Sprintf(format, args...))))
	}
	if s.Doubt != "" {
		line("WARNING", "this node does not trust what it sees, and denies nobody: %s", s.Doubt)
	}
	line("node", "%s, at %s by its clock", s.Node, s.At.Format(time.RFC3339))
	if s.Unit == "" {
		line("unit", "none: the node has no label of a unit, or the API server has not said which")
	} else {
		line("unit", "%s, %d nodes, view %s", s.Unit, len(s.Members), s.View)
	}
	line("uplink", "%s", map[bool]string{true: Yes, false: No}[s.Uplink])
	line("hears", "%s", map[bool]string{true: "more than half of the unit", false: "not more than half of the unit, or not for long enough: it decides nothing"}[s.Hears])
	switch {
	case s.HoldsUntil != nil:
		line("leader", "this node; it holds the unit's Lease until %s", s.HoldsUntil.Format(time.RFC3339))
	case s.Leads:
		line("leader", "this node, without the unit's Lease: it writes nothing")
	case s.Leader != "":
		line("leader", "%s, as of %s ago: it knows more", s.Leader, age(time.Duration(s.LeaderAge*float64(time.Second))))
	default:
		line("leader", "nobody, as far as is known here")
	}
	if len(s.Dead) > 0 {
		line("dead", "%s", few(s.Dead))
	}
	for _, m := range s.Members {
		switch {
		case m.Since != nil:
			line("suspect", "%s, since %s, %s ago", m.Name, m.Since.Format(time.RFC3339), age(s.At.Sub(*m.Since)))
		case m.Suspected > 0: // by a daemon that does not say since when
			line("suspect", "%s, for %d rounds", m.Name, m.Suspected)
		}
	}
	if _, err := io.WriteString(w, strings.Join(lines, "\n")+"\n"); err != nil {
		return err
	}
	for _, x := range MatricesOf([]NodeStatus{*s}) {
		if err := x.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}
