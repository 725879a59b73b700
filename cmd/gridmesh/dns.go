package main

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/internal/run"
)

// dnsDoc is the output of dns.
type dnsDoc struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Result  string   `json:"result"`
	Answers []string `json:"answers,omitempty"`
	Why     string   `json:"why"`
}

var dnsTypes = map[string]answer.Type{"A": answer.A, "AAAA": answer.AAAA, "SRV": answer.SRV}

func dnsCommand() *cobra.Command {
	in, cfg, zone := &input{}, answer.Config{Services: true}, ""
	cmd := &cobra.Command{
		Use: "dns NAME [TYPE]", Short: "Show what a name of a grid resolves to on a node, and why", Args: cobra.RangeArgs(1, 2),
		Long: `Show what a name of a grid resolves to on a node, and why.

TYPE is A (the default), AAAA, SRV or PTR; NAME is whole or without the zone, or
an address for PTR.`,
		Example: "  gridmesh dns db-0.db.default.svc.cluster.local --node edge-7\n  gridmesh dns db.default SRV -f ./state --node edge-7",
		RunE: func(cmd *cobra.Command, args []string) error {
			ask := "A"
			if len(args) > 1 {
				ask = strings.ToUpper(args[1])
			}
			w, err := in.world(cmd.Context())
			if err != nil {
				return err
			}
			doc, err := askName(answer.New(cfg).Next(w.view), strings.ToLower(args[0]), ask, strings.ToLower(strings.Trim(zone, ".")))
			if err != nil {
				return err
			}
			return in.doubt(w, in.print(cmd.OutOrStdout(), doc, func(out io.Writer) error { return dnsTable(out, doc) }))
		},
	}
	in.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&zone, "zone", "cluster.local", "zone of the cluster")
	f.BoolVar(&cfg.Services, "services", true, "answer ClusterIP Services and PTR too, as the node-local DNS does")
	f.BoolVar(&cfg.Strict, "strict", false, "hide the pods of other units")
	f.BoolVar(&cfg.EmptyNXDomain, "empty-nxdomain", false, "a name without endpoints in the unit does not exist")
	return cmd
}

func askName(x *answer.Index, name, ask, zone string) (*dnsDoc, error) {
	suffix := ".svc." + zone
	if ask == "PTR" {
		return askAddress(x, name, suffix)
	}
	kind, known := dnsTypes[ask]
	if !known {
		return nil, fmt.Errorf("%w: type %q is not answered; use A, AAAA, SRV or PTR", run.ErrUsage, ask)
	}
	relative := strings.TrimSuffix(strings.TrimSuffix(name, "."), suffix)
	a := x.Lookup(relative, kind)
	doc := &dnsDoc{Name: relative + suffix, Type: ask, Why: x.Explain(relative, kind)}
	for _, ip := range a.Addrs {
		doc.Answers = append(doc.Answers, ip.String())
	}
	for _, t := range a.SRV {
		doc.Answers = append(doc.Answers, fmt.Sprintf("%d %s%s", t.Port, t.Name, suffix))
	}
	doc.Result = map[answer.Result]string{answer.Passed: "FOREIGN", answer.NotFound: "ABSENT", answer.NXDomain: "NXDOMAIN", answer.Found: "NOERROR"}[a.Result]
	return doc, nil
}

func askAddress(x *answer.Index, text, suffix string) (*dnsDoc, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is no address", run.ErrUsage, text)
	}
	doc := &dnsDoc{Name: ip.String(), Type: "PTR", Result: "FOREIGN", Why: "no Service or member of this snapshot has the address: others answer"}
	for _, name := range x.PTR(ip) {
		doc.Answers, doc.Result, doc.Why = append(doc.Answers, name+suffix), "NOERROR", "an address of a Service, or of a headless one's endpoint"
	}
	return doc, nil
}

func dnsTable(out io.Writer, doc *dnsDoc) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", doc.Name, doc.Type, doc.Result, doc.Why)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, a := range doc.Answers {
		fmt.Fprintln(out, " ", a)
	}
	return nil
}
