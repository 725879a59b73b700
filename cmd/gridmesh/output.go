package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
)

var outputs = []string{"table", "json", "yaml"}

// wide is a table with more in it, of commands that have one.
const wide = "wide"

func (r *reach) bindOutput(f *pflag.FlagSet, more ...string) {
	r.more = more
	f.StringVarP(&r.output, "output", "o", "table", either(r.forms()))
	choices(r.cmd, "output", r.forms()...)
}

// forms are those in which a command prints.
func (r *reach) forms() []string { return slices.Insert(slices.Clone(outputs), 1, r.more...) }

// either is a choice in words.
func either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// choices has a shell complete the values of a flag.
func choices(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// checkOutput refuses a form that does not exist, before anything is asked.
func (r *reach) checkOutput() error {
	if known := r.forms(); !slices.Contains(known, r.output) {
		return fmt.Errorf("%w: -o %q is not known; use %s", run.ErrUsage, r.output, either(known))
	}
	return nil
}

// print writes v as the flag says; table is called for people.
func (r *reach) print(w io.Writer, v any, table func(io.Writer) error) error {
	if r.output == "table" || r.output == wide {
		return table(readable{w})
	}
	data, err := yaml.Marshal(v)
	if err == nil && r.output == "json" {
		data, err = yaml.YAMLToJSON(data)
		data = append(data, '\n')
	}
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// readable writes text for people: of what others wrote, as the names in a
// manifest, nothing may move a terminal's cursor or turn a line around.
type readable struct{ io.Writer }

func (r readable) Write(data []byte) (int, error) {
	if _, err := io.WriteString(r.Writer, run.Printable(string(data), "\n")); err != nil {
		return 0, err
	}
	return len(data), nil
}

// oneLine is a Problem as a line: a line break in a name would begin another.
func oneLine(p topology.Problem) string { return run.Printable(p.String(), "") }
