package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/test/conformance/score"
)

// kubeRouter is the engine that enforces NetworkPolicies in FORWARD, as k3s has it.
const kubeRouter = "kube-router"

// beside is what specs are run beside, a list, columns and results of its own each:
// nothing (""), or an engine that enforces NetworkPolicies.
type beside string

// programsOfEngine are what the engine calls, by Debian's packages of these names.
var programsOfEngine = []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore", "ipset"}

func (b beside) validate() error {
	if b != "" && b != kubeRouter {
		return fmt.Errorf("--policies %q: say %s, or nothing", string(b), kubeRouter)
	}
	return nil
}

// missing says what an engine lacks on this machine; nil: nothing.
func (b beside) missing() error {
	if b == "" {
		return nil
	}
	var lacks []string
	for _, program := range programsOfEngine {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, program)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%s needs %s: not found (apt-get install iptables ipset)", string(b), strings.Join(lacks, ", "))
	}
	return nil
}

// proxies are the columns.
func (b beside) proxies() []string {
	if b == "" {
		return score.Proxies
	}
	return score.PolicyProxies
}

// expectations is the list of specs, with what each comes to.
func (b beside) expectations() string {
	name := "expected.txt"
	if b != "" {
		name = "policies.txt"
	}
	return filepath.Join(edge.Root(), "test", "conformance", name)
}

// results is where everything of a run is kept.
func (b beside) results() string {
	return filepath.Join(edge.Root(), "bin", "conformance", string(b))
}

// engines are those that run, one a node.
type engines []*edge.Process

// start starts the engine on every node, where the node's other programs run, and
// waits until each has written its rules: whatever comes then is judged by it.
func (b beside) start(ctx context.Context, c *cluster.Cluster) (list engines, err error) {
	if b == "" {
		return nil, nil
	}
	for _, n := range c.Nodes {
		p, err := edge.Start(n.NS, string(b)+" "+n.Name, append([]string{edge.Binary(string(b))}, kubeRouterArgs(c.Kubeconfig, n.Name)...)...)
		if err != nil {
			return list, err
		}
		list = append(list, p)
	}
	for _, p := range list {
		if _, err := wait.For(ctx, p.Name+" to write its rules", func() error { return written(p) }); err != nil {
			return list, fmt.Errorf("%w: %s", err, last(p.Log()))
		}
	}
	return list, nil
}

// kubeRouterArgs make it enforce policies and nothing else, for both families.
func kubeRouterArgs(kubeconfig, node string) []string {
	return []string{
		"--run-firewall=true", "--run-router=false", "--run-service-proxy=false", "--enable-cni=false", "--enable-ipv6=true",
		"--kubeconfig", kubeconfig, "--hostname-override", node, "--service-cluster-ip-range", netlab.ServiceCIDR4.String() + "," + netlab.ServiceCIDR6.String(), "-v", "1",
	}
}

// written returns nil once an engine says that its rules are those of the policies.
func written(p *edge.Process) error {
	switch {
	case !p.Running():
		return errors.New("it has ended")
	case !strings.Contains(p.Log(), "sync iptables took"):
		return errors.New("it has not said so")
	}
	return nil
}

// running returns nil while all run: what a spec came to without one is not kept.
func (e engines) running() error {
	var errs []error
	for _, p := range e {
		if !p.Running() {
			errs = append(errs, fmt.Errorf("%s has ended, and what specs came to says nothing: %s", p.Name, last(p.Log())))
		}
	}
	return errors.Join(errs...)
}

// last is the end of what an engine wrote, which may be megabytes.
func last(log string) string { return log[max(0, len(log)-2000):] }

// keepLogs writes what engines wrote beside the outcomes of their column.
func (e engines) keepLogs(dir string) error {
	var errs []error
	for _, p := range e {
		errs = append(errs, os.WriteFile(filepath.Join(dir, strings.ReplaceAll(p.Name, " ", "-")+".log"), []byte(p.Log()), 0o644))
	}
	return errors.Join(errs...)
}
