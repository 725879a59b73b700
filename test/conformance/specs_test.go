package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/conformance/score"
)

// A process' focus takes its spec and no other, also where one name is the
// beginning of another's; and what it writes is in files of its own.
func TestProcessTakesItsSpec(t *testing.T) {
	var specs []string
	for i := range 10 {
		specs = append(specs, fmt.Sprintf("[sig-network] Services should (%d) work: http", i), fmt.Sprintf("[sig-network] Services should (%d) work: http [Slow]", i))
	}
	specs = append(specs, "[sig-network] a: b", "[sig-network] a, b", "[sig-network] "+strings.Repeat("long ", 60)+"1", "[sig-network] "+strings.Repeat("long ", 60)+"2")
	files := map[string]bool{}
	for _, spec := range specs {
		takes := 0
		for _, other := range specs {
			if regexp.MustCompile(focus(spec)).MatchString("Kubernetes e2e suite " + other) {
				takes++
				if other != spec {
					t.Errorf("the process of %q runs %q", spec, other)
				}
			}
		}
		if takes != 1 {
			t.Errorf("%s: its process runs %d specs", spec, takes)
		}
		name := fileName(spec)
		if files[name] {
			t.Errorf("%s: another's process writes %s, too", spec, name)
		}
		files[name] = true
		if len(name) > 200 || strings.ContainsAny(name, "/ []:,") {
			t.Errorf("%s: its process writes %q", spec, name)
		}
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

// What is no report of a spec is no judgement of it, and never a pass.
func TestOutcomeOfAProcess(t *testing.T) {
	p := process{spec: "a", dir: t.TempDir()}
	suite := func(cases string) string { return `<testsuites><testsuite>` + cases + `</testsuite></testsuites>` }
	for text, want := range map[string]struct {
		state score.State
		why   string
	}{
		"": {score.Absent, "signal: killed"},
		suite(`<testcase name="[It] a" status="passed" time="1"></testcase>`):                                                 {score.Passed, ""},
		suite(`<testcase name="[It] a" status="failed" time="1"><failure>refused</failure></testcase>`):                       {score.Failed, "refused"},
		suite(`<testcase name="[It] b" status="passed" time="1"></testcase>`):                                                 {score.Absent, "before it was run"},
		suite(`<testcase name="[SynchronizedBeforeSuite]" status="failed"><failure>nodes are not ready</failure></testcase>`): {score.Absent, "nodes are not ready"},
		"<testsuites><testsui": {score.Absent, "read JUnit report"},
	} {
		if text != "" {
			if err := os.WriteFile(p.report(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := p.outcome(errors.New("signal: killed"))
		if got.Spec != "a" || got.State != want.state || !strings.Contains(got.Why, want.why) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if err := os.Remove(p.report()); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if filepath.Dir(p.log()) != p.dir {
		t.Errorf("log: %s", p.log())
	}
}

var update = flag.Bool("update", false, "rewrite the tables of specs in docs/conformance.md")

// The page's tables are the checked-in lists.
func TestThePageHasTheLists(t *testing.T) {
	list, err := readExpectations("")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := readExpectations(kubeRouter)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(edge.Root(), "docs", "conformance.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const heading = "\n## Every spec\n\n"
	before, table, found := strings.Cut(string(page), heading)
	if !found {
		t.Fatalf("%s has no section %q", path, heading)
	}
	left, err := readLeftOut()
	if err != nil {
		t.Fatal(err)
	}
	want := score.Markdown(list, score.Proxies) + "\n## Every spec of NetworkPolicies\n\n" + score.Markdown(policies, score.PolicyProxies) + "\n## Every spec that is not run\n\n" + score.MarkdownLeftOut(left)
	if *update {
		if err := os.WriteFile(path, []byte(before+heading+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the tables of %s are not those of the lists in %s: run make golden", path, filepath.Dir(leftOut()))
	}
}

// The checked-in list can be read, and has specs of its own kind only.
func TestExpectedIsWellFormed(t *testing.T) {
	for _, with := range []beside{"", kubeRouter} {
		list, err := readExpectations(with)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if !strings.HasPrefix(e.Spec, suite) {
				t.Errorf("%s is none of sig-network", e.Spec)
			}
			if strings.Contains(e.Spec, "[Feature:NetworkPolicy]") != (with != "") {
				t.Errorf("%s is in %s", e.Spec, with.expectations())
			}
		}
		all := score.Results{}
		n := len(with.proxies()) * len(list)
		if worse, _ := all.Compare(list, with.proxies()...); len(worse) != n || n == 0 {
			t.Errorf("nothing was run, and %d of %d are worse", len(worse), n)
		}
	}
}
