package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

const usage = `Simulate a unit of nodes that vote on each other's health.

  healthsim --nodes 100 --seed 7 --fault crash,loss=30%% --for 2h
  healthsim --protocol swim --fault halves --trace
  healthsim --figures ../../docs/health-figures.md

Each run of one seed is the same; the digest of two runs says whether they were.
A verdict that a node is dead is wrong if it ran, and no more than half of the
unit could not reach it, for the last ten seconds; of whom more than half could
not reach it was cut off.

Faults, with commas between them:
%s
Flags:
%s
Exit codes: 0; 1 with --strict after a wrong verdict; 2 for what cannot be run.
`

type options struct {
	nodes         int
	seed          uint64
	fault         string
	protocol      string
	warm, during  time.Duration
	trace, strict bool
	figures, only string
}

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "healthsim:", err)
	}
	os.Exit(code)
}

// run is the program; it returns its exit code.
func run(args []string, out io.Writer) (int, error) {
	var o options
	f := pflag.NewFlagSet("healthsim", pflag.ContinueOnError)
	f.IntVar(&o.nodes, "nodes", 50, "in the unit, 2 to 5000")
	f.Uint64Var(&o.seed, "seed", 1, "of all chance")
	f.StringVar(&o.fault, "fault", "", "what goes wrong; nothing by default")
	f.StringVar(&o.protocol, "protocol", "ours", "what the nodes run: ours, edgehealth or swim")
	f.DurationVar(&o.warm, "warm", 3*time.Minute, "before anything goes wrong or is counted")
	f.DurationVar(&o.during, "for", time.Hour, "after that")
	f.BoolVar(&o.trace, "trace", false, "print faults, questions, verdicts and what is written as they happen")
	f.BoolVar(&o.strict, "strict", false, "exit with 1 after a wrong verdict")
	f.StringVar(&o.figures, "figures", "", "rewrite the simulated tables of this page (minutes)")
	f.StringVar(&o.only, "tables", "", "of --figures: costs or faults alone")
	f.Usage = func() {}
	switch err := f.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(out, usage, sim.FaultHelp(), f.FlagUsages())
		return 0, nil
	case err != nil:
		return 2, err
	case f.NArg() > 0:
		return 2, fmt.Errorf("%q: there is nothing but flags; --help lists them", f.Arg(0))
	}
	if o.figures != "" {
		if err := rewriteFigures(o.figures, o.only); err != nil {
			return 2, err
		}
		return 0, nil
	}
	return o.simulate(out)
}

// simulate is one run.
func (o options) simulate(out io.Writer) (int, error) {
	p, err := protocolNamed(o.protocol)
	faults, ferr := sim.ParseFaults(o.fault)
	if err = errors.Join(err, ferr); err != nil {
		return 2, err
	}
	if o.nodes < 2 || o.nodes > 5000 || o.during <= 0 || o.warm < 0 {
		return 2, fmt.Errorf("%d nodes for %s after %s: 2 to 5000 nodes, for some time", o.nodes, o.during, o.warm)
	}
	cfg := sim.Config{Nodes: o.nodes, Seed: o.seed, Faults: faults, Warm: o.warm, Duration: o.during}
	if o.trace {
		cfg.Trace = out
	}
	report := sim.Run(cfg, p.begin)
	report.Print(out)
	if o.strict && report.Wrong > 0 {
		return 1, nil
	}
	return 0, nil
}
