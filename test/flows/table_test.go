package flows

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// row is one line of the table: flows that are alike in all of its columns.
type row struct {
	about, ends string
	to          []frontend
	from        []place
	networks    []string
	want        string
	got         []string // by engine
}

// result is what came of a flow: what was expected, and with each engine.
type result struct {
	flow
	want string
	got  []string
}

// merge makes rows of results: first networks, then clients, then frontends of one
// Service are written together where nothing else differs.
func merge(results []result) (rows []row) {
	for _, r := range results {
		rows = append(rows, row{r.about(), r.ends, []frontend{r.to}, []place{r.from}, []string{r.network()}, r.want, r.got})
	}
	rows = join(rows, func(a, b row) bool {
		return slices.Equal(a.to, b.to) && slices.Equal(a.from, b.from)
	}, func(a *row, b row) { a.networks = append(a.networks, b.networks...) })
	rows = join(rows, func(a, b row) bool {
		return slices.Equal(a.to, b.to) && slices.Equal(a.networks, b.networks)
	}, func(a *row, b row) { a.from = append(a.from, b.from...) })
	return join(rows, func(a, b row) bool {
		return slices.Equal(a.from, b.from) && slices.Equal(a.networks, b.networks)
	}, func(a *row, b row) { a.to = append(a.to, b.to...) })
}

// join adds each row to the first one that is like it.
func join(rows []row, like func(a, b row) bool, add func(a *row, b row)) (joined []row) {
	for _, r := range rows {
		i := slices.IndexFunc(joined, func(o row) bool {
			return o.about == r.about && o.ends == r.ends && o.want == r.want && slices.Equal(o.got, r.got) && like(o, r)
		})
		if i < 0 {
			joined = append(joined, r)
		} else {
			add(&joined[i], r)
		}
	}
	return joined
}

// cells are a row as it is written.
func (r row) cells() []string {
	var to, from []string
	for _, f := range r.to {
		to = append(to, string(f))
	}
	for _, p := range r.from {
		from = append(from, string(p))
	}
	networks := strings.Join(r.networks, " ")
	switch networks {
	case "tcp4 tcp6 udp4 udp6":
		networks = "all"
	case "tcp4 tcp6":
		networks = "tcp"
	case "udp4 udp6":
		networks = "udp"
	}
	who := strings.Join(from, ", ")
	if len(from) == len(places) {
		who = "all"
	}
	return append([]string{strings.Join(to, ", "), who, networks, r.want}, r.got...)
}

// title is what a Service is about, and who its endpoints are.
func (r row) title() string {
	if r.ends == "" {
		return r.about + " | no endpoints"
	}
	return r.about + " | " + r.ends
}

// table is the text of the results, a Service after the other.
func table(results []result) string {
	rows := merge(results)
	head := append([]string{"frontend", "from", "packets", "expected"}, engineNames...)
	width := make([]int, len(head))
	lines := [][]string{head}
	for _, r := range rows {
		lines = append(lines, r.cells())
	}
	for _, l := range lines {
		for i, cell := range l {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, l := range lines {
		if i > 0 && (i == 1 || rows[i-1].title() != rows[i-2].title()) {
			fmt.Fprintf(&b, "\n%s\n", rows[i-1].title())
		}
		var line strings.Builder
		for i, cell := range l {
			fmt.Fprintf(&line, "  %-*s", width[i], cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
