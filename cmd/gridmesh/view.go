package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/topology"
)

type serviceRow struct {
	Service   string        `json:"service"`
	Keys      []string      `json:"topologyKeys,omitempty"`  // in order
	Malformed string        `json:"malformedKeys,omitempty"` // what is wrong with them
	Closed    bool          `json:"closed"`
	Why       string        `json:"why,omitempty"` // it has no frontends
	Frontends []frontendRow `json:"frontends,omitempty"`
	order     string        // of the keys, for people
}

type frontendRow struct {
	Frontend string    `json:"frontend"`
	Answer   string    `json:"answer"` // served, refused, dropped
	Tiers    []tierRow `json:"tiers,omitempty"`
	LeftOut  []endRow  `json:"leftOut,omitempty"`
}

type tierRow struct {
	Key       string   `json:"key,omitempty"`
	Endpoints []endRow `json:"endpoints"`
}

type endRow struct {
	Address string `json:"address"`
	Node    string `json:"node,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func viewCommand() *cobra.Command {
	in, namespace := &input{}, ""
	cmd := &cobra.Command{
		Use:   "view [[NAMESPACE/]SERVICE]",
		Short: "Show per Service the tiers, their endpoints, and why each other one was left out",
		Long: `Show per Service the tiers, their endpoints, and why each other one was left out.

Exits with 1 where it prints a problem; of one Service, only its own are.`,
		Args: cobra.MaximumNArgs(1),
		Example: `  gridmesh view --node edge-7 -f ./state
  gridmesh view default/web --kubeconfig ~/.kube/config --node edge-7
  gridmesh view -n default --node edge-7 -f ./state`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := given(args); err != nil {
				return err
			}
			w, err := in.world(cmd.Context())
			if err != nil {
				return err
			}
			if args, err = w.wanted(args, namespace); err != nil {
				return err
			}
			rows, err := w.rows(args)
			if err != nil {
				return err
			}
			problems, notices := w.about(args, w.view.AllProblems()), w.about(args, w.view.AllNotices())
			doc := map[string]any{"node": in.node, "unit": w.view.Viewpoint.Values, "services": rows, "problems": problemTexts(problems), "notices": problemTexts(notices)}
			return in.judge(problems, in.print(cmd.OutOrStdout(), doc, func(out io.Writer) error { return w.table(out, rows, problems, notices) }))
		},
	}
	in.bind(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only Services of this namespace (default: all of them)")
	cmd.ValidArgsFunction = first(in.completeServices(topology.ObjectKey.String))
	in.completeNamespaces()
	return cmd
}

func (w *world) rows(args []string) ([]serviceRow, error) {
	rows := []serviceRow{}
	for _, s := range w.view.Sorted() {
		if len(args) > 0 && !asked(s.Key.String(), args[0]) {
			continue
		}
		row := serviceRow{Service: s.Key.String(), Keys: s.Keys.List, Malformed: s.Keys.Fault, Closed: s.Keys.Closed(), order: s.Keys.String()}
		if s.Keys.Any {
			row.Keys = append(slices.Clone(row.Keys), topology.AnyNode)
		}
		out := topology.Explain(w.snap, w.view, w.opts, s.Key)
		for _, f := range s.Frontends {
			fr := frontendRow{Frontend: f.String(), Answer: answers(&f)}
			for _, t := range f.Tiers {
				tr := tierRow{Key: t.Key}
				for _, e := range t.Endpoints {
					tr.Endpoints = append(tr.Endpoints, endRow{Address: e.Addr.String(), Node: e.Node})
				}
				fr.Tiers = append(fr.Tiers, tr)
			}
			for _, l := range out[f.Frontend] {
				fr.LeftOut = append(fr.LeftOut, endRow{l.Addr.String(), l.Node, l.Reason})
			}
			row.Frontends = append(row.Frontends, fr)
		}
		if len(row.Frontends) == 0 {
			row.Why = bare(s)
		}
		rows = append(rows, row)
	}
	if len(args) > 0 && len(rows) == 0 {
		return nil, fmt.Errorf("no Service %s in this state%s%s", none(args[0]), w.services(args[0]), besides(w.snap.Problems))
	}
	return rows, nil
}

// bare says why a Service has no frontends.
func bare(s *topology.ServiceView) string {
	switch {
	case s.Service.Foreign:
		return "left to others (ExternalName, another proxy's, or labelled headless)"
	case s.Service.Headless:
		return "headless: names alone, see gridmesh dns"
	case s.Service.Unaddressed():
		return "no clusterIP yet"
	}
	return "nothing of it is served; see its problems"
}

func (w *world) table(out io.Writer, rows []serviceRow, problems, notices []topology.Problem) error {
	fmt.Fprintf(out, "node %s", w.view.Viewpoint.Name)
	for _, key := range w.view.KeysInUse {
		value, ok := w.view.Viewpoint.Values[key]
		if !ok {
			value = "(no label)"
		}
		fmt.Fprintf(out, ", %s=%s", key, value)
	}
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tKEYS\tFRONTEND\tTIER\tENDPOINT\tNODE\tREASON")
	for _, s := range rows {
		if s.Why != "" {
			fmt.Fprintf(t, "%s\t%s\t-\t\t\t\t%s\n", s.Service, dash(s.order), s.Why)
		}
		for _, f := range s.Frontends {
			head := fmt.Sprintf("%s\t%s\t%s", s.Service, dash(s.order), f.Frontend)
			for i, tier := range f.Tiers {
				for _, e := range tier.Endpoints {
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", head, tierName(i, tier.Key), e.Address, dash(e.Node))
					head = "\t\t"
				}
			}
			if len(f.Tiers) == 0 {
				fmt.Fprintf(t, "%s\t%s\t\t\tno endpoint this node may use\n", head, f.Answer)
				head = "\t\t"
			}
			for _, e := range f.LeftOut {
				fmt.Fprintf(t, "%s\tleft out\t%s\t%s\t%s\n", head, e.Address, dash(e.Node), e.Reason)
			}
		}
	}
	if err := flush(t, out, problems); err != nil {
		return err
	}
	for _, n := range notices {
		fmt.Fprintln(out, "notice:", oneLine(n))
	}
	return nil
}

func tierName(i int, key string) string {
	if key == "" {
		return fmt.Sprint(i + 1)
	}
	return fmt.Sprintf("%d %s", i+1, key)
}

func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}

func answers(f *topology.FrontendView) string {
	switch {
	case len(f.Tiers) > 0:
		return "served"
	case f.Silent:
		return "dropped"
	}
	return "refused"
}
