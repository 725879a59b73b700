package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/conformance/score"
)

func program() string { return filepath.Join(edge.Root(), "bin", "e2e.test") }

// suite begins the names of the specs that are explained one by one.
const suite = "[sig-network] "

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

// focus selects a spec by its whole name. What it is held against begins with
// the name of the suite.
func focus(spec string) string { return "^Kubernetes e2e suite " + regexp.QuoteMeta(spec) + "$" }

// alone reports whether a spec must not run beside others.
func alone(spec string) bool {
	return strings.Contains(spec, "[Serial]") || strings.Contains(spec, "[Disruptive]")
}

// fileName is a name for what a spec's process writes: readable, and no other's.
func fileName(spec string) string {
	sum := fnv.New32a()
	sum.Write([]byte(spec))
	words := strings.FieldsFunc(strings.TrimPrefix(spec, suite), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	name := strings.Join(words, "-")
	return fmt.Sprintf("%s-%08x", name[:min(len(name), 120)], sum.Sum32())
}

// writeKubectl writes the program that specs call: kubectl is a part of a
// program here.
func writeKubectl() (path string, err error) {
	path = filepath.Join(sandbox.Dir, "kubectl")
	return path, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\nexec %s kubectl \"$@\"\n", edge.Binary("kube")), 0o755)
}

// process is one of the program's, for one spec: what becomes of it is no
// other's matter, and is known as soon as it ends.
type process struct {
	spec    string
	dir     string // its log and report
	home    string
	kubectl string
	timeout time.Duration
}

// killAfter is how long a process that has to end may take for its report.
const killAfter = time.Minute

// run runs the spec from the control plane's network.
func (p *process) run(ctx context.Context, c *cluster.Cluster) (score.Outcome, error) {
	log, err := os.Create(p.log())
	if err != nil {
		return score.Outcome{}, err
	}
	defer log.Close()
	limited, cancel := context.WithTimeout(ctx, p.timeout+killAfter)
	defer cancel()
	cmd := exec.CommandContext(limited, program(), "--kubeconfig", c.Kubeconfig, "--kubectl-path", p.kubectl, "--provider", "local",
		"--ginkgo.no-color", "--ginkgo.focus", focus(p.spec), "--ginkgo.timeout", p.timeout.String(),
		"--report-dir", p.dir, "--report-prefix", fileName(p.spec)+"_", "--allowed-not-ready-nodes", "0")
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, sandbox.Dir
	cmd.Env = append(os.Environ(), "HOME="+p.home)
	if err := c.Lab.Cloud.Start(cmd); err != nil {
		return score.Outcome{}, err
	}
	ended := cmd.Wait() // it is no success where a spec fails: the report says it
	if ctx.Err() != nil {
		return score.Outcome{}, ctx.Err() // it was ended, which says nothing of the spec
	}
	o := p.outcome(ended)
	// It names all specs of the suite, and says nothing of this one that the log
	// does not.
	if err := os.Remove(p.report()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return score.Outcome{}, err
	}
	return o, nil
}

func (p *process) log() string { return filepath.Join(p.dir, fileName(p.spec)+".log") }

func (p *process) report() string {
	return filepath.Join(p.dir, "junit_"+fileName(p.spec)+"_01.xml")
}

// outcome is what the spec came to whose process ended so. Where there is no
// report, or none of the spec, it was not judged.
func (p *process) outcome(ended error) score.Outcome {
	absent := func(why string, args ...any) score.Outcome {
		return score.Outcome{Spec: p.spec, State: score.Absent, Why: fmt.Sprintf(why, args...)}
	}
	f, err := os.Open(p.report())
	if errors.Is(err, os.ErrNotExist) {
		return absent("its process wrote no report and ended with: %v", ended)
	}
	if err != nil {
		return absent("%v", err)
	}
	defer f.Close()
	list, err := score.ReadJUnit(f, []string{p.spec})
	if err != nil {
		return absent("%v", err)
	}
	return list[0]
}
