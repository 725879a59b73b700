package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/conformance/score"
)

// Every spec goes to one process, and that process' focus takes its specs and
// no other's, also where one name is the beginning of another's.
func TestProcessesShareSpecs(t *testing.T) {
	var specs []string
	for i := range 10 {
		specs = append(specs, fmt.Sprintf("[sig-network] Services should (%d) work: http", i), fmt.Sprintf("[sig-network] Services should (%d) work: http [Slow]", i))
	}
	hands := deal(specs, 3)
	if len(hands) != 3 {
		t.Fatalf("%d processes", len(hands))
	}
	for _, spec := range specs {
		holds, takes := 0, 0
		for _, hand := range hands {
			if slices.Contains(hand, spec) {
				holds++
			}
			if regexp.MustCompile(focus(hand)).MatchString("Kubernetes e2e suite " + spec) {
				takes++
			}
		}
		if holds != 1 || takes != 1 {
			t.Errorf("%s: %d processes have it, %d would run it", spec, holds, takes)
		}
	}
	if got := deal(specs[:2], 3); len(got) != 2 {
		t.Errorf("two specs make %d processes", len(got))
	}
}

func TestParseList(t *testing.T) {
	got, err := parseList("The following spec names can be used with 'ginkgo run --focus/skip':\n    k8s.io/kubernetes/test/e2e/network/dns.go:54: [sig-network] DNS should: a b\n\n")
	if err != nil || !slices.Equal(got, []string{"[sig-network] DNS should: a b"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := parseList("flag provided but not defined\n"); err == nil {
		t.Error("an empty list is no error")
	}
}

// A process that was killed leaves no report: none of its specs passed, and
// the run goes on to say so.
func TestProcessWithoutReport(t *testing.T) {
	p := process{name: "1", specs: []string{"a", "b"}, dir: t.TempDir()}
	got, err := p.report(errors.New("signal: killed"))
	if err != nil || len(got) != 2 || got[1].Spec != "b" || got[1].State != score.Absent || !strings.Contains(got[1].Why, "signal: killed") {
		t.Errorf("%+v, %v", got, err)
	}
	worse, _ := score.Results{"gridmesh": got}.Compare([]score.Expectation{{Spec: "a", States: map[string]score.State{"kube-proxy": score.Failed, "gridmesh": score.Failed}}})
	if len(worse) != 2 {
		t.Errorf("worse: %q", worse)
	}
}

// The checked-in list can be read, and has specs of its own kind only.
func TestExpectedIsWellFormed(t *testing.T) {
	list, err := readExpectations()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Spec, "[sig-network] ") {
			t.Errorf("%s is none of sig-network", e.Spec)
		}
	}
	all := score.Results{}
	if worse, _ := all.Compare(list); len(worse) != len(score.Proxies)*len(list) || len(worse) == 0 {
		t.Errorf("nothing was run, and %d of %d are worse", len(worse), len(score.Proxies)*len(list))
	}
}
