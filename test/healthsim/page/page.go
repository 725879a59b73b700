// Package page is what docs/health-figures.md has of the simulator: which runs, as which tables.
package page

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

// Row is a fault of the tables.
type Row struct{ Title, Faults string }

// Rows are all. In each a node dies now and then, too.
var Rows = []Row{
	{"nothing", ""},
	{"agents stopped, 5 % of them at a time", "stall=5%"},
	{"nodes frozen, 5 % of them at a time", "freeze=5%"},
	{"10 % of packets lost", "loss=10%"},
	{"30 % of packets lost", "loss=30%"},
	{"half of the packets to a fifth of the nodes lost", "oneway=50%"},
	{"cut in halves", "halves"},
	{"cut, one part with a third", "thirds"},
	{"one node without uplink", "uplink=one"},
	{"all nodes without uplink", "uplink=all"},
	{"agents begin anew, one every 10 s", "restart"},
	{"clocks an hour off", "clock"},
	{"a tenth of the nodes behind NAT", "nat=10%"},
	{"all nodes behind NAT", "nat=100%"},
}

// Deaths are a row's faults, and those.
func (r Row) Deaths() []sim.Fault {
	list, err := sim.ParseFaults(r.Faults + ",crash")
	if err != nil {
		panic(err) // Rows are constants
	}
	return list
}

// Nodes of a unit of the rows.
const Nodes = 50

// Warm is how long a unit runs before anything is counted.
const Warm = 3 * time.Minute

// Sizes are those of units whose costs are told.
var Sizes = []int{10, 20, 50, 100, 200, 500, 1000, 2000, 5000}

// CostFor is how long they are counted.
const CostFor = 2 * time.Minute

// All has several things made at once, as many as there are processors, and waits for them.
func All(jobs []func()) {
	var all sync.WaitGroup
	todo := make(chan func(), len(jobs))
	for _, job := range jobs {
		todo <- job
	}
	close(todo)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for job := range todo {
				job()
			}
		})
	}
	all.Wait()
}

// Table writes rows of cells in Markdown; the first is the head.
func Table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return b.String()
}

// Cost is what a node sends, and what the busiest has.
func Cost(r sim.Report) string {
	return fmt.Sprintf("%.1f, %s; %.0f, %s", r.Sent, size(r.SentBytes), r.Busiest, size(r.BusiestBytes))
}

func size(bytes float64) string {
	switch {
	case bytes >= 1e6:
		return fmt.Sprintf("%.1f MB", bytes/1e6)
	case bytes >= 1e4:
		return fmt.Sprintf("%.0f kB", bytes/1e3)
	}
	return fmt.Sprintf("%.1f kB", bytes/1e3)
}

// Wrong is how often a node that lives was declared dead.
func Wrong(r sim.Report) string {
	text := "0"
	if r.Wrong > 0 {
		text = fmt.Sprintf("**%.*f**", map[bool]int{true: 0, false: 1}[r.WrongRate() >= 10], r.WrongRate())
	}
	if r.CutOff > 0 {
		text += fmt.Sprintf(" (%.0f)", 1000*float64(r.CutOff)/r.NodeHours())
	}
	return text
}

// Detected is how long it took to declare deaths.
func Detected(r sim.Report) string {
	if len(r.Detected) == 0 {
		return "never"
	}
	text := fmt.Sprintf("%.0f, %.0f, %.0f s", r.Quantile(0.5).Seconds(), r.Quantile(0.99).Seconds(), r.Quantile(1).Seconds())
	if r.Missed > 0 {
		text += fmt.Sprintf("; %d of %d never", r.Missed, r.Missed+len(r.Detected))
	}
	return text
}

// Part returns a marked part of a page.
func Part(text []byte, name string) ([]byte, error) {
	_, rest, ok := bytes.Cut(text, []byte(mark("begin", name)))
	part, _, ends := bytes.Cut(rest, []byte(mark("end", name)))
	if !ok || !ends {
		return nil, fmt.Errorf("the page has no part between %q and %q", mark("begin", name), mark("end", name))
	}
	return bytes.TrimSpace(part), nil
}

// Check reports which of the marked parts a page lacks.
func Check(file string, names ...string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	for _, name := range names {
		if _, err := Part(text, name); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// Rewrite writes marked parts of a page.
func Rewrite(file string, parts map[string]string) error {
	if err := Check(file, slices.Collect(maps.Keys(parts))...); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	for name, part := range parts {
		before, rest, _ := strings.Cut(string(text), mark("begin", name))
		_, after, _ := strings.Cut(rest, mark("end", name))
		text = []byte(before + mark("begin", name) + "\n" + part + mark("end", name) + after)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func mark(what, name string) string {
	return "<!-- " + what + " " + name + ": make healthsim UPDATE=1 -->"
}
