package main

import (
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/test/healthsim/page"
	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

// The tables' runs: 1000 node-hours of each fault, by two seeds.
const (
	faultsFor = 10 * time.Hour
	seeds     = 2
)

// rewriteFigures makes the simulated tables, or those of them that are named, and writes them into a page.
func rewriteFigures(file, only string) error {
	if err := page.Check(file, "costs", "wrong", "detected"); err != nil {
		return err // before it takes minutes
	}
	if only != "costs" {
		wrong, detected := faultTables()
		if err := page.Rewrite(file, map[string]string{"wrong": wrong, "detected": detected}); err != nil {
			return err
		}
	}
	if only == "faults" {
		return nil
	}
	return page.Rewrite(file, map[string]string{"costs": costTable(page.Sizes)})
}

// costTable is what nodes send while all is well.
func costTable(sizes []int) string {
	cells := make([][]string, len(sizes))
	var jobs []func()
	for i := len(sizes) - 1; i >= 0; i-- { // the longest first
		cells[i] = make([]string, 1+len(protocols))
		cells[i][0] = fmt.Sprint(sizes[i])
		for k, p := range protocols {
			if cells[i][1+k] = "–"; sizes[i] > p.most {
				continue
			}
			jobs = append(jobs, func() {
				cells[i][1+k] = page.Cost(sim.Run(sim.Config{Nodes: sizes[i], Seed: 1, Warm: page.Warm, Duration: page.CostFor}, p.begin))
			})
		}
	}
	page.All(jobs)
	return page.Table(append([][]string{head("nodes")}, cells...))
}

// faultTables are how often a node that lives is declared dead, and how long a death takes.
func faultTables() (wrong, detected string) {
	reports := make([][][seeds]sim.Report, len(page.Rows))
	var jobs []func()
	for i, row := range page.Rows {
		reports[i] = make([][seeds]sim.Report, len(protocols))
		for k, p := range protocols {
			for s := range seeds {
				jobs = append(jobs, func() {
					reports[i][k][s] = sim.Run(sim.Config{Nodes: page.Nodes, Seed: uint64(1 + s), Faults: row.Deaths(), Warm: page.Warm, Duration: faultsFor}, p.begin)
				})
			}
		}
	}
	page.All(jobs)
	wrongs, detecteds := [][]string{head("beside a death every 8 minutes")}, [][]string{head("beside that death")}
	for i, row := range page.Rows {
		w, d := []string{row.Title}, []string{row.Title}
		for k := range protocols {
			r := reports[i][k][0]
			for s := 1; s < seeds; s++ {
				r = r.Add(reports[i][k][s])
			}
			w, d = append(w, page.Wrong(r)), append(d, page.Detected(r))
		}
		wrongs, detecteds = append(wrongs, w), append(detecteds, d)
	}
	return page.Table(wrongs), page.Table(detecteds)
}

func head(first string) []string {
	list := []string{first}
	for _, p := range protocols {
		list = append(list, p.title)
	}
	return list
}
