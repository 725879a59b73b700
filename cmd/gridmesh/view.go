package main

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/refusal"
)

type serviceRow struct {
	Service   string        `json:"service"`
	Keys      []string      `json:"topologyKeys,omitempty"`  // in order
	Malformed string        `json:"malformedKeys,omitempty"` // what is wrong with them
	Closed    bool          `json:"closed"`
	Affinity  string        `json:"affinity,omitempty"` // for how long a client keeps its endpoint
	Why       string        `json:"why,omitempty"`      // it has no frontends
	Frontends []frontendRow `json:"frontends,omitempty"`
	order     string        // of the keys, for people
}

type frontendRow struct {
	Frontend string `json:"frontend"`
	Kind     string `json:"kind,omitempty"` // NodePort, LoadBalancer or ExternalIP; none: of a ClusterIP
	Path     string `json:"path,omitempty"` // envoy, or kernel, which refuses Envoy's as well; none where there is one path alone
	answerRow
	Unmarked    int            `json:"unmarked,omitempty"` // endpoints that Envoy sends nobody to, besides those that say so
	of          int            // endpoints that Envoy has for it, where it has ejected any
	instead     bool           // it is Envoy's, and the kernel gets its new connections
	told        string         // notice or problem: as what it is told that a ClusterIP's is refused
	LeftOut     []endRow       `json:"leftOut,omitempty"`
	MoreLeftOut int            `json:"moreLeftOut,omitempty"` // that are not listed
	Cause       *refusal.Cause `json:"cause,omitempty"`       // of one that is refused, and nobody is left out
	FromOutside *answerRow     `json:"fromOutside,omitempty"` // where that is another: externalTrafficPolicy Local
	Sources     []string       `json:"sources,omitempty"`     // who alone may dial it
}

type answerRow struct {
	Answer string    `json:"answer"`          // served, refused, dropped, unserved
	Tiers  []tierRow `json:"tiers,omitempty"` // of what is unserved: those that it would have
}

type tierRow struct {
	Key       string   `json:"key,omitempty"`
	Endpoints []endRow `json:"endpoints"`
}

type endRow struct {
	Address string `json:"address"`
	Node    string `json:"node,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Envoy   string `json:"envoy,omitempty"` // ejected or unhealthy: it sends nobody there
	Vote    string `json:"vote,omitempty"`  // its node is dead by the vote of its unit: what becomes of it
	at      netip.AddrPort
	unnamed bool // its slice has ports of its Service, but not this one: its pod has none that targetPort names
}

func viewCommand() *cobra.Command {
	in, namespace, all := &input{}, "", false
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
			if all {
				namespace = ""
			}
			if args, err = w.wanted(args, namespace); err != nil {
				return err
			}
			cfg, _ := in.capture() // the world was made with it
			in.noteRules(cmd.Context(), w, &cfg)
			w.ejected = in.ejections(cmd.Context())
			rows, err := w.rows(args)
			if err != nil {
				return err
			}
			in.noteGrids(w)
			in.noteDatapath(cmd.Context(), w)
			problems := append(w.about(args, slices.Concat(w.view.AllProblems(), w.udpTold(false))), w.guarded(args, cfg.ServiceCIDRs, netip.Addr{})...)
			notices := w.about(args, w.notices())
			doc := map[string]any{"node": in.node, "unit": w.view.Viewpoint.Values, "services": rows, "problems": problemTexts(problems), "notices": problemTexts(notices)}
			if w.ejected != nil && w.ejected.used {
				in.noteEnvoy(cmd.Context(), ofRows(rows))
				doc["ejections"] = w.ejected
			}
			if w.twoPaths() {
				doc["networkPolicies"] = w.opts.Policies
				if why := w.whyKernel(instead(rows)); len(why) > 0 {
					doc["kernelServes"] = why
				}
			}
			return in.judge(problems, in.print(cmd.OutOrStdout(), doc, func(out io.Writer) error { return w.table(out, rows, problems, notices) }))
		},
	}
	in.bind(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only Services of this namespace (default: all of them)")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "Services of every namespace, whatever -n says")
	cmd.ValidArgsFunction = first(in.completeServices(topology.ObjectKey.String))
	in.completeNamespaces()
	return cmd
}

func (w *world) rows(args []string) ([]serviceRow, error) {
	rows, refused, most := []serviceRow{}, w.udpRefused(), mostLeftOut
	if len(args) > 0 {
		most = mostLeftOutOfOne
	}
	for _, s := range w.view.Sorted() {
		if len(args) > 0 && !asked(s.Key.String(), args[0]) {
			continue
		}
		row := serviceRow{Service: s.Key.String(), Keys: s.Keys.List, Malformed: s.Keys.Fault, Closed: s.Keys.Closed(), order: s.Keys.String()}
		if s.Keys.Any {
			row.Keys = append(slices.Clone(row.Keys), topology.AnyNode)
		}
		if s.Affinity > 0 && !tells(s.Notices(), "spec.sessionAffinity") {
			row.Affinity = s.Affinity.String()
		}
		row.Frontends = w.frontendRows(s, most)
		for i := range s.Frontends { // the first rows are of these
			if r := refused[s.Frontends[i].Frontend]; r != nil {
				row.Frontends[i].Answer, row.Frontends[i].told, row.Frontends[i].Cause = answerUnserved, r.told(), nil
			}
			if !row.Frontends[i].instead {
				w.ejected.mark(&row.Frontends[i], &s.Frontends[i])
			}
		}
		if len(row.Frontends) == 0 {
			row.Why = bare(s)
		}
		rows = append(rows, row)
	}
	if len(args) > 0 && len(rows) == 0 {
		return nil, w.absent(args[0])
	}
	return rows, nil
}

// bare says why a Service has no frontends.
func bare(s *topology.ServiceView) string {
	switch {
	case s.Service.Foreign:
		return "left to others (ExternalName, another proxy's, or labelled headless): refused here, but for what others translate before it is guarded"
	case s.Service.Headless:
		return "headless: names alone, see gridmesh dns"
	case s.Service.Unaddressed():
		return "no clusterIP yet"
	}
	return "nothing of it is served; see its problems"
}

func (w *world) table(out io.Writer, rows []serviceRow, problems, notices []topology.Problem) error {
	fmt.Fprintf(out, "node %s", w.view.Viewpoint.Name)
	var labels report.LabelIndex
	labels.Next(w.snap)
	for _, key := range labels.OfSome(w.view.KeysInUse) { // of the others a problem tells
		value, ok := w.view.Viewpoint.Values[key]
		if !ok {
			value = "(no label)"
		}
		fmt.Fprintf(out, ", %s=%s", key, value)
	}
	fmt.Fprintln(out)
	for _, why := range w.whyKernel(instead(rows)) {
		fmt.Fprintln(out, why)
	}
	w.ejected.line(out)
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tKEYS\tFRONTEND\tTIER\tENDPOINT\tNODE\tREASON")
	for _, s := range rows {
		if s.Why != "" {
			fmt.Fprintf(t, "%s\t%s\t-\t\t\t\t%s\n", s.Service, dash(s.order), s.Why)
		}
		for _, f := range s.Frontends {
			f.table(t, s)
		}
	}
	if err := flush(t, out, problems); err != nil {
		return err
	}
	printNotices(out, notices)
	return nil
}

func printNotices(out io.Writer, list []topology.Problem) {
	for _, n := range list {
		fmt.Fprintln(out, "notice:", oneLine(n))
	}
}

// table writes a frontend's lines: its tiers, and what was left out.
func (f *frontendRow) table(t io.Writer, s serviceRow) {
	name := strings.TrimSpace(f.Frontend + " " + f.Kind)
	if f.Path != "" {
		name += ", by " + f.Path
	}
	if s.Affinity != "" {
		name += ", affinity " + s.Affinity
	}
	head := fmt.Sprintf("%s\t%s\t%s", s.Service, dash(s.order), name)
	if f.Answer == answerUnserved {
		why := notServed
		if f.Kind == "" {
			why = "refused, see its " + f.told
		}
		fmt.Fprintf(t, "%s\t%s\t\t\t%s\n", head, answerUnserved, why)
		return
	}
	why := nobody
	if f.Cause != nil {
		why = noneAnywhere
	}
	f.lines(t, head, why)
	if o := f.FromOutside; o != nil {
		if o.Answer == answerDropped {
			why = "externalTrafficPolicy Local: no endpoint on this node, and some on others"
		}
		o.lines(t, "\t\tfrom outside", why)
	}
	if f.Unmarked > 0 {
		fmt.Fprintf(t, "\t\t\t\t\t\t"+unmarkedText+"\n", f.Unmarked, f.of)
	}
	for _, e := range f.LeftOut {
		fmt.Fprintf(t, "\t\t\tleft out\t%s\t%s\t%s\n", e.Address, dash(e.Node), e.Reason)
	}
	if f.MoreLeftOut > 0 {
		fmt.Fprintf(t, "\t\t\tleft out\t%d more\t\tlisted of one Service alone, some thousands of them: gridmesh view %s\n", f.MoreLeftOut, s.Service)
	}
}

// nobody is why a frontend has no tiers, and noneAnywhere where nobody is left out of them either:
// the cause in short, as there may be many.
const (
	nobody       = "no endpoint this node may use"
	noneAnywhere = refusal.NoEndpoint + "; see that its selector matches pods, and that they have the port"
)

// lines writes the tiers, the first line with a head of its own, or why there are none.
func (a *answerRow) lines(t io.Writer, head, why string) {
	for i, tier := range a.Tiers {
		for _, e := range tier.Endpoints {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", head, tierName(i, tier.Key), e.Address, dash(e.Node), e.why())
			head = "\t\t"
		}
	}
	if len(a.Tiers) == 0 {
		fmt.Fprintf(t, "%s\t%s\t\t\t%s\n", head, a.Answer, why)
	}
}

func tierName(i int, key string) string {
	if key == "" {
		return fmt.Sprint(i + 1)
	}
	return fmt.Sprintf("%d %s", i+1, key)
}

// dash is a cell of a table: one line, and never empty.
func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return run.Printable(s, "")
}

const (
	answerServed   = "served"
	answerRefused  = "refused"
	answerDropped  = "dropped"
	answerUnserved = "unserved"
)

// by is what an address answers that nothing may serve yet, whatever it would.
func (a answerRow) by(path topology.Path) answerRow {
	if path == topology.PathNone {
		a.Answer = answerUnserved
	}
	return a
}

// tells reports whether one of the notices is of the field.
func tells(notices []topology.Problem, field string) bool {
	return slices.ContainsFunc(notices, func(n topology.Problem) bool { return n.Field == field })
}

func (w *world) answers(tiers []topology.Tier, silent bool) answerRow {
	row := answerRow{Answer: answerRefused, Tiers: w.tierRows(tiers)}
	switch {
	case len(tiers) > 0:
		row.Answer = answerServed
	case silent:
		row.Answer = answerDropped
	}
	return row
}
