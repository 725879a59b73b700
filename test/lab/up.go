package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// upTimeout bounds the start of a cluster. A quiet machine needs 12 s.
const upTimeout = 2 * wait.Patience

func upCommand() *cobra.Command {
	var units, nodes int
	var proxy string
	var realNodes bool
	cmd := &cobra.Command{
		Use: "up", Short: "Start a cluster and stay in the foreground", Args: cobra.NoArgs,
		Long: `Start a cluster and stay in the foreground.

It says "up" when it is ready; then "lab kubectl" is the administrator's kubectl. His
kubeconfig is inside, where "lab exec" runs commands:
` + adminConfig + `.`,
		Example: "  lab up --units 3 --nodes 2\n  lab up --real --units 2 --nodes 1\n  lab kubectl get nodes -L unit\n  lab cut uplink a",
		RunE: kept(func() (bool, error) { return true, checkUp(units, nodes, proxy) }, func(ctx context.Context, s *server) error {
			if realNodes {
				return upReal(ctx, s, units, nodes, proxy)
			}
			return up(ctx, s, units, nodes, proxy)
		}),
	}
	cmd.Flags().IntVar(&units, "units", 2, "units, named a, b, c ...")
	cmd.Flags().IntVar(&nodes, "nodes", 2, "nodes a unit; the odd ones have routed pods, the even ones bridged")
	cmd.Flags().StringVar(&proxy, "proxy", gridmesh, "what serves Services: gridmesh (with DNS), kube-proxy or none (without)")
	_ = cmd.RegisterFlagCompletionFunc("proxy", cobra.FixedCompletions([]string{gridmesh, kubeProxy, noProxy}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.Flags().BoolVar(&realNodes, "real", false, "nodes with the real kubelet and containerd, all bridged; gridmesh comes by deploy/ (needs root, and "+realnode.Packages+")")
	return cmd
}

// adminConfig is the administrator's kubeconfig, as people in the lab name it.
const adminConfig = sandbox.Dir + "/cluster/pki/admin.kubeconfig"

func labConfig(units, nodes int) netlab.Config {
	var cfg netlab.Config
	for i := range units {
		u := netlab.UnitConfig{Name: string(rune('a' + i))}
		for j := range nodes {
			u.Nodes = append(u.Nodes, []netlab.PodNetwork{netlab.Routed, netlab.Bridged}[j%2])
		}
		if i > 0 {
			cfg.Links = append(cfg.Links, [2]string{cfg.Units[i-1].Name, u.Name})
		}
		cfg.Units = append(cfg.Units, u)
	}
	return cfg
}

func up(ctx context.Context, s *server, units, nodes int, proxy string) error {
	if proxy == noProxy {
		proxy = ""
	}
	starting, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	c, err := cluster.Up(starting, cluster.Config{Lab: labConfig(units, nodes), Proxy: map[string]string{"": proxy}, Say: say})
	if err != nil {
		return err
	}
	var k *keeper
	if proxy == gridmesh {
		if k, err = keepController(ctx, c); err != nil {
			return err
		}
		if err := startDNS(starting, c); err != nil {
			return err
		}
	}
	announce(c, "", proxy == gridmesh)
	return s.serve(ctx, c, k)
}

// startDNS starts the cluster's DNS in the cloud, and gridmesh's on every node.
func startDNS(ctx context.Context, c *cluster.Cluster) error {
	begin := time.Now()
	if _, err := c.StartDNS(); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := n.StartDNS(netlab.CloudIP.String()); err != nil {
			return err
		}
	}
	for name, n := range c.Nodes {
		if _, err := wait.For(ctx, "names to resolve on "+name, func() error {
			if !n.DNS.Running() {
				return fmt.Errorf("its DNS has ended:\n%s", n.DNS.Log())
			}
			_, err := edge.Resolve(n.NS, edge.NodeDNS[0]+":53", "kubernetes.default.svc.cluster.local.", dns.TypeA)
			return err
		}); err != nil {
			return err
		}
	}
	say("names resolve on every node: %s", time.Since(begin).Round(10*time.Millisecond))
	return nil
}

// announce says that the lab is there, and what it has not.
func announce(c *cluster.Cluster, what string, hasGridmesh bool) {
	if hasGridmesh {
		say("a Service's name is known on every node and in pods: lab exec a-1 -- curl http://NAME")
		say("what a node's agent keeps on its disk: lab exec a-1 gridmesh view --state-dir /var/lib/gridmesh")
	} else {
		say("there is no DNS: gridmesh-dns has its data from gridmesh's agent, and comes with --proxy gridmesh")
	}
	say("lab kubectl is the administrator's; his kubeconfig is inside: lab exec a-1 -- COMMAND --kubeconfig %s", c.Kubeconfig)
	fmt.Printf("up%s: %s; stop with Ctrl-C or: lab down\n", what, strings.Join(names(c), " "))
}

// What may serve Services.
const (
	gridmesh  = "gridmesh"
	kubeProxy = "kube-proxy"
	noProxy   = "none"
)

// checkUp refuses what cannot be.
func checkUp(units, nodes int, proxy string) error {
	if units < 1 || units > 9 || nodes < 1 || nodes > 9 {
		return usagef("--units %d --nodes %d: each must be between 1 and 9", units, nodes)
	}
	if all := []string{gridmesh, kubeProxy, noProxy}; !slices.Contains(all, proxy) {
		return usagef("--proxy %q: say %s", proxy, strings.Join(all, ", "))
	}
	return nil
}

func names(c *cluster.Cluster) []string {
	var list []string
	for _, n := range c.Lab.Nodes() {
		list = append(list, n.Name)
	}
	return list
}

func say(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }
