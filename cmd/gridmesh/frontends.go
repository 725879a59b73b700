package main

import (
	"slices"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/refusal"
)

// How many endpoints are listed as left out, of a Service among all and of one that is asked for: a
// Service of 1000 ports and as many endpoints has a million of them, which would take gigabytes.
const mostLeftOut, mostLeftOutOfOne = 200, 10_000

// frontendRows are the frontends of a Service: of its ClusterIPs, then the others. So many that are left out
// are listed at most, of the first frontends first.
func (w *world) frontendRows(s *topology.ServiceView, most int) (rows []frontendRow) {
	out := topology.Explain(w.snap, w.view, w.opts, s.Key)
	entry, _ := w.snap.Services.Get(s.Key)
	add := func(f topology.Frontend, portName string, row frontendRow) {
		row.Frontend = f.String()
		for _, l := range out[f] {
			row.LeftOut = append(row.LeftOut, endRow{Address: l.Addr.String(), Node: l.Node, Reason: l.Reason, at: l.Addr})
		}
		row.LeftOut = append(row.LeftOut, portless(entry, f, portName)...)
		slices.SortStableFunc(row.LeftOut, func(a, b endRow) int { return a.at.Compare(b.at) })
		if row.Answer == answerRefused && len(row.LeftOut) == 0 {
			row.Cause = refusal.Nobody(s.Key, portName)
		}
		if row.MoreLeftOut = max(0, len(row.LeftOut)-most); row.MoreLeftOut > 0 {
			row.LeftOut = slices.Clone(row.LeftOut[:most])
		}
		most -= len(row.LeftOut)
		rows = append(rows, row)
	}
	for _, f := range s.Frontends {
		path, instead := w.byNow(f.Path), w.byNow(f.Path) != f.Path
		if path == topology.PathEnvoy && len(f.Tiers) == 0 { // no packet comes to Envoy
			path = topology.PathKernel
		}
		add(f.Frontend, f.PortName, frontendRow{Path: pathOf(s, path), instead: instead, told: toldProblem, answerRow: w.answers(f.Tiers, f.Silent).by(f.Path)})
	}
	for _, o := range s.Outside {
		row := frontendRow{Kind: o.Kind.String(), Path: pathOf(s, o.Path), answerRow: w.answers(o.Tiers, false).by(o.Path)}
		if o.Local {
			outside := w.answers(o.LocalTiers, o.Silent).by(o.Path)
			row.FromOutside = &outside
		}
		for _, p := range o.Sources {
			row.Sources = append(row.Sources, p.String())
		}
		add(o.Frontend, o.PortName, row)
	}
	return rows
}
