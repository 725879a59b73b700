package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/conformance/score"
)

// options of a run.
type options struct {
	proxy       string
	policies    string
	focus       string
	skip        string
	resume      bool
	nodes       int
	processes   int
	timeout     time.Duration
	specTimeout time.Duration
}

func runCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "run", Short: "Run specs with one proxy and keep what they come to in bin/conformance/PROXY", Args: cobra.NoArgs,
		Example: "  conformance run --proxy gridmesh\n  conformance run --proxy kube-proxy --focus 'Services should serve'\n" +
			"  conformance run --proxy gridmesh --resume",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			var result error
			sandbox.Run(func() int {
				result = o.run(cmd.Context())
				if ended := cmd.Context().Err(); ended != nil { // whatever it made of it
					result = errors.Join(ended, result)
				}
				if result != nil {
					fmt.Fprintln(os.Stderr, "conformance:", result)
					return exitCode(result)
				}
				return 0
			})
			return result
		},
	}
	cmd.Flags().StringVar(&o.proxy, "proxy", "", "what serves Services: "+strings.Join(score.Proxies, " or "))
	o.selection(cmd)
	cmd.Flags().BoolVar(&o.resume, "resume", false, "keep what was judged before, by the same programs, and run what is left")
	cmd.Flags().IntVar(&o.nodes, "nodes", 3, "nodes of the cluster")
	cmd.Flags().IntVar(&o.processes, "processes", 4, "how many specs run beside each other")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 3*time.Hour, "when no spec begins any more")
	cmd.Flags().DurationVar(&o.specTimeout, "spec-timeout", 15*time.Minute, "when a spec that still runs is ended")
	return cmd
}

// selection adds the flags that say which specs are meant.
func (o *options) selection(cmd *cobra.Command) {
	policiesFlag(cmd, &o.policies)
	cmd.Flags().StringVar(&o.focus, "focus", "", "regular expression of specs (default: those in test/conformance/expected.txt; with --policies in policies.txt)")
	cmd.Flags().StringVar(&o.skip, "skip", `\[Serial\]|\[Disruptive\]|\[Slow\]|\[Feature:`, "regular expression of specs that --focus leaves out, if they are not in that list")
}

func (o *options) validate() error {
	switch {
	case !slices.Contains(o.with().proxies(), o.proxy):
		return fmt.Errorf("--proxy %q: say %s", o.proxy, strings.Join(o.with().proxies(), " or "))
	case o.nodes < 1 || o.nodes > 9:
		return fmt.Errorf("--nodes %d: it must be between 1 and 9", o.nodes)
	case o.processes < 1 || o.processes > 9:
		return fmt.Errorf("--processes %d: it must be between 1 and 9", o.processes)
	case o.timeout <= 0 || o.specTimeout <= 0:
		return fmt.Errorf("--timeout %s, --spec-timeout %s: both must be longer than nothing", o.timeout, o.specTimeout)
	}
	return o.validateSelection()
}

// with is what specs are run beside.
func (o *options) with() beside { return beside(o.policies) }

func (o *options) validateSelection() error {
	if err := o.with().validate(); err != nil {
		return err
	}
	for flag, expr := range map[string]string{"focus": o.focus, "skip": o.skip} {
		if _, err := regexp.Compile(expr); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	return nil
}

// run is inside the sandbox.
func (o *options) run(ctx context.Context) error {
	specs, err := o.specs(ctx)
	if err != nil {
		return err
	}
	programs, err := sum(o.proxy, o.with())
	if err != nil {
		return err
	}
	k, err := keep(filepath.Join(o.with().results(), o.proxy), programs, o.resume)
	if err != nil {
		return err
	}
	left := k.left(specs)
	if len(left) == 0 {
		say("%s: all of %d specs were judged before", o.proxy, len(specs))
		return nil
	}
	start := time.Now()
	c, enforcing, err := o.up(ctx)
	if err != nil {
		return err
	}
	say("%s serves %d nodes after %s", o.proxy, o.nodes, time.Since(start).Round(10*time.Millisecond))
	start = time.Now()
	err = o.play(ctx, c, enforcing, k, left)
	if err := errors.Join(err, enforcing.keepLogs(k.dir)); err != nil {
		return err
	}
	say("%d specs in %s", len(left), time.Since(start).Round(time.Second))
	return nil
}

// play runs specs in processes beside each other, as long as engines run.
func (o *options) play(ctx context.Context, c *cluster.Cluster, enforcing engines, k *kept, specs []string) error {
	kubectl, err := writeKubectl()
	if err != nil {
		return err
	}
	p := &player{
		workers: o.processes, until: time.Now().Add(o.timeout), now: time.Now, add: k.add, say: say,
		run: func(ctx context.Context, worker int, spec string) (score.Outcome, error) {
			p := process{spec: spec, dir: k.logs(), home: home(worker), kubectl: kubectl, timeout: o.specTimeout}
			outcome, err := p.run(ctx, c)
			return outcome, errors.Join(err, enforcing.running())
		},
	}
	return p.play(ctx, specs)
}

// specs are those that are expected to come to something, or those in focus.
func (o *options) specs(ctx context.Context) (list []string, err error) {
	all, err := allSpecs(ctx)
	if err != nil {
		return nil, err
	}
	expected, err := readExpectations(o.with())
	if err != nil {
		return nil, err
	}
	every, err := readEvery()
	if err != nil {
		return nil, err
	}
	left, err := readLeftOut()
	if err != nil {
		return nil, err
	}
	network := slices.DeleteFunc(slices.Clone(all), func(spec string) bool { return !strings.HasPrefix(spec, suite) })
	if err := score.Unexplained(network, every, left); err != nil {
		return nil, fmt.Errorf("the lists of %s: %w", filepath.Dir(leftOut()), err)
	}
	for _, e := range expected {
		if !slices.Contains(all, e.Spec) {
			return nil, fmt.Errorf("%s: Kubernetes has no spec %q", o.with().expectations(), e.Spec)
		}
		if o.selects(e.Spec, true) {
			list = append(list, e.Spec)
		}
	}
	if o.focus == "" {
		return list, nil
	}
	for _, name := range all {
		if o.selects(name, false) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("--focus %q: no spec of %d is left, without those of --skip %q", o.focus, len(all), o.skip)
	}
	return list, nil
}

// selects reports whether a spec is in focus, and not left out: of those that are expected
// to come to something none is.
func (o *options) selects(spec string, expected bool) bool {
	return regexp.MustCompile(o.focus).MatchString(spec) && (expected || o.skip == "" || !regexp.MustCompile(o.skip).MatchString(spec))
}

func say(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }
