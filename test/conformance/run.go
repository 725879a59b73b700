package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/test/conformance/images"
	"github.com/gridmesh/gridmesh/test/conformance/score"
)

// options of a run.
type options struct {
	proxy     string
	focus     string
	skip      string
	nodes     int
	processes int
	timeout   time.Duration
}

func runCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "run", Short: "Run specs with one proxy and keep what they come to in bin/conformance/PROXY", Args: cobra.NoArgs,
		Example: "  conformance run --proxy gridmesh\n  conformance run --proxy kube-proxy --focus 'Services should serve'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			var result error
			sandbox.Run(func() int {
				if result = o.run(cmd.Context()); result != nil {
					fmt.Fprintln(os.Stderr, "conformance:", result)
					return 1
				}
				return 0
			})
			return result
		},
	}
	cmd.Flags().StringVar(&o.proxy, "proxy", "", "what serves Services: "+strings.Join(score.Proxies, " or "))
	o.selection(cmd)
	cmd.Flags().IntVar(&o.nodes, "nodes", 3, "nodes of the cluster")
	cmd.Flags().IntVar(&o.processes, "processes", 3, "how many specs run beside each other")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Hour, "when specs that still run are ended")
	return cmd
}

// selection adds the flags that say which specs are meant.
func (o *options) selection(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.focus, "focus", "", "regular expression of specs (default: those in test/conformance/expected.txt)")
	cmd.Flags().StringVar(&o.skip, "skip", `\[Serial\]|\[Disruptive\]|\[Slow\]|\[Feature:`, "regular expression of specs that --focus leaves out")
}

func (o *options) validate() error {
	switch {
	case !slices.Contains(score.Proxies, o.proxy):
		return fmt.Errorf("--proxy %q: say %s", o.proxy, strings.Join(score.Proxies, " or "))
	case o.nodes < 1 || o.nodes > 9:
		return fmt.Errorf("--nodes %d: it must be between 1 and 9", o.nodes)
	case o.processes < 1 || o.processes > 9:
		return fmt.Errorf("--processes %d: it must be between 1 and 9", o.processes)
	}
	return o.validateSelection()
}

func (o *options) validateSelection() error {
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
	dir := filepath.Join(results(), o.proxy)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	start := time.Now()
	c, err := o.up(ctx)
	if err != nil {
		return err
	}
	say("%s serves %d nodes after %s", o.proxy, o.nodes, time.Since(start).Round(10*time.Millisecond))
	start = time.Now()
	outcomes, err := o.play(ctx, c, specs, dir)
	if err := errors.Join(err, ctx.Err()); err != nil { // one that was ended is no result
		return err
	}
	say("%d specs in %s", len(specs), time.Since(start).Round(time.Second))
	data, err := json.MarshalIndent(outcomes, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "outcomes.json"), data, 0o644)
}

// specs are those that are expected to come to something, or those in focus.
func (o *options) specs(ctx context.Context) (list []string, err error) {
	all, err := allSpecs(ctx)
	if err != nil {
		return nil, err
	}
	if o.focus == "" {
		expected, err := readExpectations()
		if err != nil {
			return nil, err
		}
		for _, e := range expected {
			if !slices.Contains(all, e.Spec) {
				return nil, fmt.Errorf("%s: Kubernetes has no spec %q", expectations(), e.Spec)
			}
			list = append(list, e.Spec)
		}
		return list, nil
	}
	for _, name := range all {
		if o.selects(name) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("--focus %q: no spec of %d is left, without those of --skip %q", o.focus, len(all), o.skip)
	}
	return list, nil
}

// selects reports whether a spec is in focus and not left out.
func (o *options) selects(spec string) bool {
	return regexp.MustCompile(o.focus).MatchString(spec) && (o.skip == "" || !regexp.MustCompile(o.skip).MatchString(spec))
}

// up starts a cluster of one unit whose Services the proxy serves, and whose
// names resolve.
func (o *options) up(ctx context.Context) (*cluster.Cluster, error) {
	bin := filepath.Join(edge.Root(), "bin")
	list, err := images.List(bin, filepath.Join(bin, "debian"))
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	kube.LogTo(slog.New(slog.DiscardHandler)) // before any client runs: it is global
	unit := netlab.UnitConfig{Name: "a"}
	cfg := cluster.Config{RealImages: list, NodeGrace: 50 * time.Second, Say: say}
	for i := range o.nodes {
		unit.Nodes = append(unit.Nodes, netlab.Bridged)
		cfg.Real = append(cfg.Real, fmt.Sprintf("%s-%d", unit.Name, i+1))
	}
	cfg.Lab.Units = []netlab.UnitConfig{unit}
	if o.proxy == "kube-proxy" {
		cfg.Proxy = map[string]string{"": o.proxy}
	}
	starting, cancel := context.WithTimeout(ctx, 2*wait.Patience)
	defer cancel()
	c, err := cluster.Up(starting, cfg)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(labelZones(c), startClusterDNS(c)); err != nil {
		return nil, err
	}
	if o.proxy == "gridmesh" {
		err = c.Deploy(starting)
	} else {
		err = startNodeDNS(c)
	}
	if err != nil {
		return nil, err
	}
	return c, waitNames(starting, c)
}

// labelZones puts each node into a zone of its own, as specs of traffic
// distribution want it.
func labelZones(c *cluster.Cluster) error {
	for name := range c.Nodes {
		if out, err := c.Kubectl("label", "node", name, "topology.kubernetes.io/zone=zone-of-"+name); err != nil {
			return fmt.Errorf("label node %s: %w: %s", name, err, out)
		}
	}
	return nil
}

func say(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }
