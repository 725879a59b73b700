package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/conformance/score"
)

func reportCommand() *cobra.Command {
	var o options
	var proxies []string
	cmd := &cobra.Command{
		Use: "report", Short: "Show what specs came to with each proxy; exit 1 where that is worse than the list says", Args: cobra.NoArgs,
		Example: "  conformance report\n  conformance report --proxies kube-proxy,gridmesh",
		RunE: func(*cobra.Command, []string) error {
			if err := o.validateSelection(); err != nil {
				return err
			}
			with := o.with()
			if len(proxies) == 0 {
				proxies = with.proxies()
			}
			for _, p := range proxies {
				if !slices.Contains(with.proxies(), p) {
					return fmt.Errorf("--proxies %q: say some of %s", p, strings.Join(with.proxies(), ", "))
				}
			}
			expected, err := readExpectations(with)
			if err != nil {
				return err
			}
			if o.focus != "" {
				expected = slices.DeleteFunc(expected, func(e score.Expectation) bool { return !o.selects(e.Spec, true) })
			}
			all, err := readResults(with)
			if err != nil {
				return err
			}
			return report(with, all, expected, proxies)
		},
	}
	o.selection(cmd)
	cmd.Flags().StringSliceVar(&proxies, "proxies", nil, "those that are judged (default: all)")
	return cmd
}

// report prints the table, keeps it beside the results, and fails where
// something of the proxies that are judged is worse than expected.
func report(with beside, all score.Results, expected []score.Expectation, proxies []string) error {
	var table bytes.Buffer
	if err := all.Table(&table, with.proxies()); err != nil {
		return err
	}
	fmt.Print(table.String())
	if err := os.WriteFile(filepath.Join(with.results(), "table.txt"), table.Bytes(), 0o644); err != nil {
		return err
	}
	worse, other := all.Compare(expected, proxies...)
	for _, line := range other {
		fmt.Println("note:", line)
	}
	for _, line := range worse {
		fmt.Println("WORSE:", line)
	}
	if len(worse) > 0 {
		return fmt.Errorf("%w: %d", errWorse, len(worse))
	}
	return nil
}

func readExpectations(with beside) ([]score.Expectation, error) {
	f, err := os.Open(with.expectations())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := score.ReadExpectations(f, with.proxies())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", with.expectations(), err)
	}
	return list, nil
}

// readEvery reads both lists: a spec is in one of them, or is left out.
func readEvery() ([]score.Expectation, error) {
	alone, err := readExpectations("")
	if err != nil {
		return nil, err
	}
	policies, err := readExpectations(kubeRouter)
	return append(alone, policies...), err
}

func readLeftOut() ([]score.LeftOut, error) {
	f, err := os.Open(leftOut())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := score.ReadLeftOut(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", leftOut(), err)
	}
	return list, nil
}

// readResults reads each proxy's outcomes. A proxy that was not run has none,
// which Compare finds.
func readResults(with beside) (score.Results, error) {
	all := score.Results{}
	for _, proxy := range with.proxies() {
		file, err := readOutcomes(filepath.Join(with.results(), proxy))
		if err != nil {
			return nil, err
		}
		if file != nil {
			all[proxy] = file.Outcomes
		}
	}
	return all, nil
}
