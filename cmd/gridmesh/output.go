package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/internal/run"
)

var outputs = []string{"table", "json", "yaml"}

func (r *reach) bindOutput(f *pflag.FlagSet) {
	f.StringVarP(&r.output, "output", "o", "table", "table, json or yaml")
	choices(r.cmd, "output", outputs...)
}

// choices has a shell complete the values of a flag.
func choices(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// checkOutput refuses a form that does not exist, before anything is asked.
func (r *reach) checkOutput() error {
	if !slices.Contains(outputs, r.output) {
		return fmt.Errorf("%w: -o %q is not known; use table, json or yaml", run.ErrUsage, r.output)
	}
	return nil
}

// print writes v as the flag says; table is called for people.
func (r *reach) print(w io.Writer, v any, table func(io.Writer) error) error {
	if r.output == "table" {
		return table(w)
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
