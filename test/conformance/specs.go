package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/conformance/score"
)

func program() string { return filepath.Join(edge.Root(), "bin", "e2e.test") }

// listed is a line of the program's list: where a spec is, and its name.
var listed = regexp.MustCompile(`^    \S+\.go:\d+: (.+)$`)

// allSpecs asks the program for the names of its specs.
func allSpecs(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, program(), "--list-tests").Output()
	if err != nil {
		return nil, fmt.Errorf("list specs: %w", err)
	}
	return parseList(string(out))
}

func parseList(text string) (list []string, err error) {
	for line := range strings.Lines(text) {
		if m := listed.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			list = append(list, m[1])
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the program lists no specs")
	}
	return list, nil
}

// deal gives each of n processes its specs, in turn: none twice, none left.
func deal(specs []string, n int) [][]string {
	hands := make([][]string, min(n, len(specs)))
	for i, spec := range specs {
		hands[i%len(hands)] = append(hands[i%len(hands)], spec)
	}
	return hands
}

// focus selects specs by their whole names. What it is held against begins
// with the name of the suite.
func focus(specs []string) string {
	quoted := make([]string, len(specs))
	for i, spec := range specs {
		quoted[i] = regexp.QuoteMeta(spec)
	}
	return "^Kubernetes e2e suite (?:" + strings.Join(quoted, "|") + ")$"
}

// play runs specs in processes beside each other, in the control plane's
// network, and returns what each spec came to.
func (o *options) play(ctx context.Context, c *cluster.Cluster, specs []string, dir string) (list []score.Outcome, err error) {
	kubectl, err := writeKubectl()
	if err != nil {
		return nil, err
	}
	hands := deal(specs, o.processes)
	outcomes, errs := make([][]score.Outcome, len(hands)), make([]error, len(hands))
	var all sync.WaitGroup
	for i, hand := range hands {
		all.Go(func() {
			p := process{name: fmt.Sprint(i + 1), specs: hand, dir: dir, kubectl: kubectl, timeout: o.timeout}
			outcomes[i], errs[i] = p.run(ctx, c)
		})
	}
	all.Wait()
	for _, part := range outcomes {
		list = append(list, part...)
	}
	return list, errors.Join(errs...)
}

// writeKubectl writes the program that specs call: kubectl is a part of a
// program here.
func writeKubectl() (path string, err error) {
	path = filepath.Join(sandbox.Dir, "kubectl")
	return path, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\nexec %s kubectl \"$@\"\n", edge.Binary("kube")), 0o755)
}

// process is one of the program's.
type process struct {
	name    string
	specs   []string
	dir     string // its log and report
	kubectl string
	timeout time.Duration
}

// killAfter is how long a process that has to end may take for its report.
const killAfter = time.Minute

func (p *process) run(ctx context.Context, c *cluster.Cluster) ([]score.Outcome, error) {
	log, err := os.Create(filepath.Join(p.dir, "log-"+p.name))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, p.timeout+killAfter)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(), "--kubeconfig", c.Kubeconfig, "--kubectl-path", p.kubectl, "--provider", "local",
		"--ginkgo.no-color", "--ginkgo.focus", focus(p.specs), "--ginkgo.timeout", p.timeout.String(),
		"--report-dir", p.dir, "--report-prefix", p.name+"_", "--allowed-not-ready-nodes", "0")
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, sandbox.Dir
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(sandbox.Dir, "home-"+p.name))
	if err := c.Lab.Cloud.Start(cmd); err != nil {
		return nil, err
	}
	ended := cmd.Wait() // it is no success where a spec fails: the report says it
	outcomes, err := p.report(ended)
	if err != nil {
		return nil, fmt.Errorf("process %s, whose log is %s: %w", p.name, log.Name(), err)
	}
	return outcomes, nil
}

// report reads the report of the process, which ended so. Without one no spec
// of its was judged; what others came to still counts.
func (p *process) report(ended error) ([]score.Outcome, error) {
	f, err := os.Open(filepath.Join(p.dir, "junit_"+p.name+"_01.xml"))
	if errors.Is(err, os.ErrNotExist) {
		return score.AllAbsent(p.specs, fmt.Sprintf("its process wrote no report and ended with: %v", ended)), nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return score.ReadJUnit(f, p.specs)
}
