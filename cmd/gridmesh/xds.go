package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

type resourceRow struct {
	Type      string          `json:"type"`
	Name      string          `json:"name"`
	Service   string          `json:"service,omitempty"`
	Preloaded bool            `json:"preloaded"`
	Version   string          `json:"version"`
	Resource  json.RawMessage `json:"resource"`
}

func xdsCommand() *cobra.Command {
	in := &input{}
	cmd := &cobra.Command{
		Use:     "xds",
		Short:   "Show the Envoy resources of a node, and which of them Envoy holds without being asked",
		Args:    cobra.NoArgs,
		Example: "  gridmesh xds --node edge-7 -f ./state -o yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := in.world(cmd.Context())
			if err != nil {
				return err
			}
			cat := w.catalog(in.preloadMax)
			rows, err := resourceRows(cat)
			if err != nil {
				return err
			}
			in.noteDatapath(cmd.Context(), w)
			in.noteUnit(w)
			err = in.judge(cat.Problems, in.print(cmd.OutOrStdout(), rows, func(out io.Writer) error { return resourceTable(out, cat, rows) }))
			return in.doubt(w.about(noService, w.snap.Problems), err)
		},
	}
	in.bind(cmd)
	return cmd
}

func resourceRows(cat *render.Catalog) ([]resourceRow, error) {
	rows := []resourceRow{}
	add := func(kind, typeURL, name, service string, preloaded bool) error {
		r, ok := cat.Resource(typeURL, name)
		if !ok {
			return nil
		}
		body, err := protojson.Marshal(r.Message())
		if err != nil {
			return fmt.Errorf("render %s %s: %w", kind, name, err)
		}
		rows = append(rows, resourceRow{kind, name, service, preloaded, r.Version, body})
		return nil
	}
	for _, name := range cat.Wildcard(render.ListenerType) {
		service := ""
		if key, ok := cat.ServiceOf(render.ListenerType, name); ok {
			service = key.String()
		}
		if err := add("listener", render.ListenerType, name, service, true); err != nil {
			return nil, err
		}
	}
	for _, name := range cat.Names() {
		entry, _ := cat.Entry(name)
		for _, t := range []struct{ kind, url string }{{"cluster", render.ClusterType}, {"endpoints", render.EndpointType}} {
			if err := add(t.kind, t.url, name, entry.Service.String(), cat.Preloaded(name)); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

func resourceTable(out io.Writer, cat *render.Catalog, rows []resourceRow) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TYPE\tNAME\tSERVICE\tHELD\tENDPOINTS\tVERSION")
	for _, r := range rows {
		held, ends := "on demand", ""
		if r.Preloaded {
			held = "preloaded"
		}
		if entry, ok := cat.Entry(r.Name); ok && r.Type == "endpoints" {
			for i, tier := range entry.Frontend.Tiers {
				if i > 0 {
					ends += " > "
				}
				ends += tierSize(tier)
			}
			ends = dash(ends)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Type, r.Name, r.Service, held, ends, r.Version)
	}
	if err := flush(t, out, cat.Problems); err != nil {
		return err
	}
	printNotices(out, cat.Notices)
	return nil
}

// tierSize is how many endpoints a tier has, and of how many Envoy hears that they are dead.
func tierSize(t topology.Tier) string {
	dead := 0
	for _, e := range t.Endpoints {
		if e.Dead {
			dead++
		}
	}
	if dead == 0 {
		return fmt.Sprint(len(t.Endpoints))
	}
	return fmt.Sprintf("%d (%d voted dead)", len(t.Endpoints), dead)
}
