package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

func TestExamples(t *testing.T) { testkit.Examples(t, command) }

// A shell completes nodes and units of the lab that runs, and waits for none.
func TestNamesAreCompleted(t *testing.T) {
	t.Setenv(nameVariable, t.Name())
	if out, code := typed("__complete kill agent "); code != 0 || !strings.HasPrefix(out, ":4\n") {
		t.Errorf("without a lab: exit code %d: %s", code, out)
	}
	s, _ := starting(t)
	if out, code := typed("__complete exec "); code != 0 || !strings.HasPrefix(out, ":4\n") {
		t.Errorf("while it starts: exit code %d: %s", code, out)
	}
	a, b := &netlab.Unit{Name: "a"}, &netlab.Unit{Name: "b"}
	a.Nodes, b.Nodes = []*netlab.Node{{Name: "a-1", Unit: a}}, []*netlab.Node{{Name: "b-1", Unit: b}}
	s.cluster.Store(&cluster.Cluster{Lab: &netlab.Lab{Units: []*netlab.Unit{a, b}}})
	const nodes, units, none = "a-1\nb-1\n:4\n", "a\nb\n:4\n", ":4\n"
	for line, want := range map[string]string{
		"kill agent ": nodes, "start machine ": nodes, "exec ": nodes, "cut node ": nodes,
		"cut uplink ": units, "heal link ": units, "cut link a ": units,
		"cut uplink a ": none, "cut link a b ": none, "kill agent a-1 ": none, "exec a-1 ": ":0\n", "kubectl apply -f ": ":0\n",
		"up --proxy ": "gridmesh\nkube-proxy\nnone\n:4\n", "up --units ": none, "status ": none,
	} {
		if out, code := typed("__complete " + line); code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("lab %s: exit code %d: %q, want %q", line, code, out, want)
		}
	}
}

// A plan of manifests is over what the lab has, unless people say over what.
func TestPlansAreOverTheLab(t *testing.T) {
	for line, want := range map[string]string{
		"plan -f x.yaml":                "plan --kubeconfig F -f x.yaml",
		"plan -f x.yaml --kubeconfig y": "plan -f x.yaml --kubeconfig y",
		"plan --context=y -f x.yaml":    "plan --context=y -f x.yaml",
		"list -f x.yaml":                "list -f x.yaml",
		"":                              "",
	} {
		args := strings.Fields(line)
		if got := overLab(args, "F"); strings.Join(got, " ") != want || !slices.Equal(args, strings.Fields(line)) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// What no lab has is refused before one is asked.
func TestWordsAreChecked(t *testing.T) {
	t.Setenv(nameVariable, t.Name()) // which does not run
	for line, want := range map[string]string{
		"cut router a":               `there is no "router"; say: lab cut uplink UNIT`,
		"cut link a":                 "1 words behind cut link; say: lab cut",
		"heal uplink a b":            "2 words behind heal uplink",
		"kill gent a-1":              `there is no "gent"; say: lab kill agent|envoy`,
		"exec":                       "nothing to run; say: lab exec NODE",
		"exec a-1":                   "nothing to run",
		"soak --runs 0":              "--runs 0 --spin 3",
		"bench-grids --units 0":      "--units 0: must be at least 1",
		"bench-changes --services 1": "--services 1: must be at least 50",
		"bench-changes --datapath x": "--datapath x: must be one of envoy, auto, kernel",
		"bench-dns --units 3":        "at most 2",
		"up --nodes 10":              "each must be between 1 and 9",
	} {
		if out, code := typed(line); code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("lab %s: exit code %d: %s\nwant %s", line, code, out, want)
		}
	}
	for _, line := range []string{"cut link a b", "cut uplink a", "kill agent a-1", "exec a-1 -- true", "exec a-1 true", "kubectl get", "status"} {
		if out, code := typed(line); code != exitFailure || !strings.Contains(out, "no lab runs") {
			t.Errorf("lab %s: exit code %d: %s", line, code, out)
		}
	}
}
