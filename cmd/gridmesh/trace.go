package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/refusal"
	"github.com/gridmesh/gridmesh/xds/render"
)

// walk is the way of a packet through capture and Envoy.
type walk struct {
	From    string         `json:"from"`
	To      string         `json:"to"`
	Verdict string         `json:"verdict"`
	Steps   []string       `json:"steps"`
	Cluster string         `json:"cluster,omitempty"`
	Tiers   []tierRow      `json:"tiers"`
	Cause   *refusal.Cause `json:"cause,omitempty"` // of a refusal
	service string         // that it is to; "" for none that is known
	// unserved: it is to an address of a Service that nobody serves here.
	unserved bool

	Unmarked  int        `json:"unmarked,omitempty"` // endpoints that Envoy sends nobody to, besides those that say so
	of        int        // endpoints that Envoy has, where it has ejected any
	Ejections *ejections `json:"ejections,omitempty"`
	Problems  []string   `json:"problems,omitempty"` // of the Service
	Notices   []string   `json:"notices,omitempty"`
	problems  []topology.Problem
	notices   []topology.Problem
}

func traceCommand() *cobra.Command {
	in := &input{}
	var from, to string
	cmd := &cobra.Command{
		Use:   "trace --from IP --to IP:PORT/tcp",
		Short: "Walk a packet from a client through the node's rules and Envoy to its endpoints",
		Long: `Walk a packet from a client through the node's rules, those of the capture and of
the kernel path, and through Envoy to its endpoints.

Exits with 1 where the packet is refused or dropped, or is to an address of a
Service that gridmesh does not serve; the steps say why, and what helps. So it
does for a problem of the Service, which it prints as view does.`,
		Args: cobra.NoArgs,
		Example: `  gridmesh trace --node edge-7 --from 10.244.7.5 --to 10.96.0.10:80/tcp --kubeconfig ~/.kube/config
  gridmesh trace --node edge-7 --from 10.244.7.5 --to 10.96.0.10:80/tcp -f ./state`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, frontend, err := parseTrace(from, to)
			if err != nil {
				return err
			}
			cfg, err := in.capture()
			if err != nil {
				return err
			}
			w, err := in.world(cmd.Context())
			if err != nil {
				return err
			}
			more := in.surroundings(cmd.Context())
			if len(cfg.PodCIDRs) == 0 {
				cfg.PodCIDRs = more.podCIDRs
			}
			w.ejected = in.ejections(cmd.Context())
			out := w.trace(cfg, client, frontend, in.preloadMax)
			out.tell(w, cfg.ServiceCIDRs, frontend.Addr)
			in.noteRules(cmd.Context(), w, &cfg)
			if out.Verdict == string(rules.Passed) && !w.twoPaths() { // else all that is a Service's is served
				out.notServed(more.unserved(frontend), more.whole)
			}
			in.noteForce(cmd.Context())
			in.noteAnother(cmd.Context())
			in.noteDatapath(cmd.Context(), w)
			in.noteUnit(w)
			if out.Verdict == string(rules.ToEnvoy) {
				in.noteEnvoy(cmd.Context(), out.ofWalk)
			}
			if err = in.print(cmd.OutOrStdout(), out, out.table); err == nil && !in.lenient {
				err = out.failed()
			}
			return in.judge(out.problems, err)
		},
	}
	in.bind(cmd)
	cmd.Flags().Lookup("lenient").Usage = "exit with 0 where problems are printed, or the packet is refused or not served"
	cmd.Flags().StringVar(&from, "from", "", "address of the client")
	cmd.Flags().StringVar(&to, "to", "", "IP:PORT/tcp, IP:PORT/udp or IP:PORT/sctp that it dials")
	_ = cmd.MarkFlagRequired("from")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

var (
	errNowhere  = errors.New("the packet reaches nobody")
	errUnserved = errors.New("the packet is to an address of a Service that gridmesh does not serve")
)

// failed is why no endpoint of a Service gets a packet that is for one.
func (w *walk) failed() error {
	switch {
	case w.Cause != nil:
		return fmt.Errorf("%w: %s (--lenient exits with 0)", errNowhere, w.Verdict)
	case w.unserved:
		return fmt.Errorf("%w (--lenient exits with 0)", errUnserved)
	}
	return nil
}

func parseTrace(from, to string) (client netip.Addr, f topology.Frontend, err error) {
	client, err = netip.ParseAddr(from)
	if err != nil {
		return client, f, fmt.Errorf("%w: --from %q is no IP address; give the client's, as 10.244.7.5: kubectl get pod -o wide has a pod's", run.ErrUsage, from)
	}
	client = client.Unmap()
	address, proto, _ := strings.Cut(to, "/")
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return client, f, fmt.Errorf("%w: --to %q is not IP:PORT/tcp or /udp or /sctp; give the Service's, as 10.96.0.10:80/tcp or [fd00::10]:80/tcp: gridmesh view has them", run.ErrUsage, to)
	}
	f = topology.Frontend{Addr: ap.Addr().Unmap(), Port: ap.Port(), Protocol: topology.TCP}
	switch strings.ToLower(proto) {
	case "", "tcp":
	case "udp":
		f.Protocol = topology.UDP
	case "sctp":
		f.Protocol = topology.SCTP
	default:
		return client, f, fmt.Errorf("%w: --to %q: protocol %q is not known; use tcp, udp or sctp", run.ErrUsage, to, proto)
	}
	if client.Is4() != f.Addr.Is4() {
		return client, f, fmt.Errorf("%w: --from %s and --to %s are of two families: no packet has both; give an IPv4 or an IPv6 address for both", run.ErrUsage, client, f.Addr)
	}
	return client, f, nil
}

func (w *world) trace(cfg plan.Config, client netip.Addr, to topology.Frontend, preloadMax int) *walk {
	q := rules.Question{Client: client, To: to, Listens: w.listens(preloadMax), Absent: w.instead != ""}
	state := w.kernelState(&cfg, &q)
	step := rules.Trace(cfg, plan.Of(w.view, cfg), state, q)
	out := &walk{From: client.String(), To: to.String(), Verdict: string(step.Fate), Steps: step.Steps, Cluster: step.Cluster, Tiers: []tierRow{}}
	if s, _, _ := w.dialled(q); s != nil {
		out.service = s.Key.String()
	}
	if step.ByKernel() {
		w.inKernel(out, &step, q)
		return out
	}
	if step.Fate == rules.Refused || step.Fate == rules.Dropped {
		out.because(w.sure(to, w.cause(to)))
	}
	if step.Fate != rules.ToEnvoy {
		return out
	}
	cat := w.catalog(preloadMax)
	entry, ok := cat.Entry(step.Cluster)
	if !ok { // a listener would be awaited, and nobody's address has one
		out.Verdict, out.Cluster, out.Steps = string(rules.Passed), "", []string{to.Addr.String() + " is no address of a Service"}
		return out
	}
	out.service = entry.Service.String()
	held := "asked for at the first connection"
	if cat.Preloaded(step.Cluster) {
		held = "preloaded"
	}
	out.Steps = append(out.Steps, fmt.Sprintf("Envoy: cluster %s of service %s, %s", step.Cluster, entry.Service, held))
	out.throughEnvoy(w, entry.Frontend)
	return out
}

// throughEnvoy has the tiers of a frontend, with marks on those that Envoy sends nobody to.
func (w *walk) throughEnvoy(of *world, f *topology.FrontendView) {
	row := frontendRow{answerRow: of.answers(f.Tiers, f.Silent)}
	of.ejected.mark(&row, f)
	w.Unmarked, w.of = row.Unmarked, row.of
	if w.Tiers = row.Tiers; w.Tiers == nil {
		w.Tiers = []tierRow{}
	}
	if of.ejected != nil && of.ejected.used {
		w.Ejections = of.ejected
	}
}

// tell takes what is wrong with the Service that was dialled, as view has it: its own
// problems, those of the node, and of files that may hide some. What is to be noticed of the
// node is said beside.
func (w *walk) tell(of *world, guarded []netip.Prefix, to netip.Addr) {
	service := w.service
	if service == "" && w.Cause != nil {
		service = w.Cause.Service
	}
	if service == "" {
		service = "/" // which is none: then what may hide one is left
	}
	w.problems = of.about([]string{service}, slices.Concat(of.view.AllProblems(), of.udpTold(false)))
	w.problems = append(w.problems, of.guarded([]string{service}, guarded, to)...)
	w.notices = slices.DeleteFunc(of.about([]string{service}, of.notices()), func(p topology.Problem) bool {
		return strings.HasPrefix(p.Object, "node ")
	})
	w.Problems, w.Notices = problemTexts(w.problems), problemTexts(w.notices)
}

func (w *world) tierRows(tiers []topology.Tier) []tierRow {
	rows := []tierRow{}
	for _, t := range tiers {
		row := tierRow{Key: t.Key}
		for _, e := range t.Endpoints {
			row.Endpoints = append(row.Endpoints, endRow{Address: e.Addr.String(), Node: e.Node, Vote: w.snap.Death(e)})
		}
		rows = append(rows, row)
	}
	return rows
}

// because says why nobody answers, and what helps.
func (w *walk) because(c *refusal.Cause) {
	w.Cause = c
	w.Steps = append(w.Steps, c.String(), "cure: "+c.Cure)
}

// notServed is said of node ports, load balancers' and external addresses where there
// is no kernel path.
const notServed = "not served with --datapath envoy, but with auto"

// notServed says that a packet passes because nobody serves its address:
// the agent alone knows no such addresses.
func (w *walk) notServed(why string, known bool) {
	switch {
	case why != "":
		w.Steps = []string{why + ": " + notServed}
		w.Verdict += " (not served)"
		w.unserved = true
	case !known:
		w.Steps = append(w.Steps, "node ports, load balancers' and external addresses are "+notServed+"; -f or --kubeconfig can tell whether it is one")
	}
}

func (w *walk) table(out io.Writer) error {
	fmt.Fprintf(out, "%s -> %s\n", w.From, w.To)
	for i, s := range w.Steps {
		fmt.Fprintf(out, "%3d. %s\n", i+1, s)
	}
	for i, t := range w.Tiers {
		for _, e := range t.Endpoints {
			line := fmt.Sprintf("     tier %s: %s on %s", tierName(i, t.Key), e.Address, dash(e.Node))
			if text := e.why(); text != "" {
				line += " (" + text + ")"
			}
			fmt.Fprintln(out, line)
		}
	}
	if w.Unmarked > 0 {
		fmt.Fprintf(out, "     "+unmarkedText+"\n", w.Unmarked, w.of)
	}
	w.Ejections.line(out)
	for _, p := range w.problems {
		fmt.Fprintln(out, "problem:", oneLine(p))
	}
	printNotices(out, w.notices)
	_, err := fmt.Fprintf(out, "verdict: %s\n", w.Verdict)
	return err
}

// listens says which UDP frontends Envoy has a listener for.
func (w *world) listens(preloadMax int) func(topology.Frontend) bool {
	return func(f topology.Frontend) bool { return w.catalog(preloadMax).Preloaded(render.ClusterName(f)) }
}
