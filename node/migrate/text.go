package migrate

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteText writes a plan for people.
func (p Plan) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", p.State)
	if len(p.Differs) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "\nkube-proxy was told\tgridmesh\n")
		for _, d := range p.Differs {
			fmt.Fprintf(t, "%s\t%s\n", d.What, d.Gridmesh)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, note := range p.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", note)
	}
	for _, why := range p.Blocked {
		fmt.Fprintf(w, "\nfirst: %s\n", why)
	}
	fmt.Fprintln(w)
	for i, s := range p.Steps {
		who := "you"
		if s.Do != Yours {
			who = "by itself"
		}
		fmt.Fprintf(w, "%2d. %s (%s)\n", i+1, s.What, who)
		if s.Command != "" {
			fmt.Fprintf(w, "      %s\n", s.Command)
		}
	}
	if len(p.Steps) == 0 && len(p.Blocked) == 0 {
		_, err := fmt.Fprintln(w, "nothing is left to do")
		return err
	}
	return nil
}
