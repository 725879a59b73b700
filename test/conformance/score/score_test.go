package score

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Two columns show what there is to show.
var two = []string{"kube-proxy", "gridmesh"}

// As the suite writes it: reasons are text without an attribute, and behind a
// stamp.
const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="6"><testsuite name="Kubernetes e2e suite">
<testcase name="[SynchronizedBeforeSuite]" status="passed" time="0.5"></testcase>
<testcase name="[It] one" status="passed" time="12.25"></testcase>
<testcase name="[It] two" status="failed" time="120"><failure type="failed">[FAILED] timed out
  waiting for &lt;svc&gt;
In [It] at: k8s.io/kubernetes/test/e2e/network/service.go:760 @ 11/22/26</failure></testcase>
<testcase name="[It] three" status="skipped" time="0.01"><skipped message="skipped - Requires at least 2 nodes (not 1)"></skipped></testcase>
<testcase name="[It] four" status="panicked" time="1"><error message="nil map" type="panicked">goroutine 1</error></testcase>
<testcase name="[It] not begun" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] out of time" status="timedout" time="121"><failure type="timedout">[TIMEDOUT] A suite timeout occurred
This is the Progress Report</failure></testcase>
<testcase name="[It] its own time" status="timedout" time="60"><failure type="timedout">[TIMEDOUT] A spec timeout occurred</failure></testcase>
<testcase name="[It] ended" status="interrupted" time="3"><error type="interrupted" message="Interrupted by User"></error></testcase>
<testcase name="[It] of another process" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
<testcase name="[SynchronizedAfterSuite]" status="failed" time="0"><failure type="failed">late</failure></testcase>
</testsuite></testsuites>`

func TestReadJUnit(t *testing.T) {
	got, err := ReadJUnit(strings.NewReader(report), []string{"one", "two", "three", "four", "five", "not begun", "out of time", "its own time", "ended"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Outcome{
		{"one", Passed, 12.25, ""},
		{"two", Failed, 120, "timed out waiting for <svc>"},
		{"three", Skipped, 0.01, "Requires at least 2 nodes (not 1)"},
		{"four", Failed, 1, "nil map"},
		{"five", Absent, 0, "its process ended before it was run"},
		{"not begun", Absent, 0, "the suite ended before it did"},
		{"out of time", Absent, 121, "the suite ended before it did"},
		{"its own time", Failed, 60, "[TIMEDOUT] A spec timeout occurred"},
		{"ended", Absent, 3, "the suite ended before it did"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A suite that did not begin judged nothing: no spec failed, none passed.
func TestSuiteThatDidNotBegin(t *testing.T) {
	text := strings.Replace(report, `status="passed" time="0.5"></testcase>`, `status="failed" time="0.5"><failure>nodes are not ready</failure></testcase>`, 1)
	if _, err := ReadJUnit(strings.NewReader(text), []string{"one"}); err == nil || !strings.Contains(err.Error(), "nodes are not ready") {
		t.Errorf("error: %v", err)
	}
	if _, err := ReadJUnit(strings.NewReader(report[:200]), []string{"one"}); err == nil {
		t.Error("half a report is no error")
	}
}

func TestReadExpectations(t *testing.T) {
	got, err := ReadExpectations(strings.NewReader("# for people\n\npassed passed [sig] a: b [Conformance]\npassed failed c # no node ports\n"), two)
	if err != nil {
		t.Fatal(err)
	}
	want := []Expectation{
		{"[sig] a: b [Conformance]", map[string]State{"kube-proxy": Passed, "gridmesh": Passed}, ""},
		{"c", map[string]State{"kube-proxy": Passed, "gridmesh": Failed}, "no node ports"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for text, says := range map[string]string{
		"passed [sig] a\n":                   `"[sig]" is no state`,
		"passed absent a\n":                  `"absent" is no state`,
		"passed passed\n":                    "it names no spec",
		"passed failed a\n":                  "say why",
		"passed failed a # \n":               "say why",
		"passed passed a\npassed passed a\n": "line 2: a is there twice",
	} {
		if _, err := ReadExpectations(strings.NewReader(text), two); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
}

func TestMarkdown(t *testing.T) {
	got := Markdown([]Expectation{
		{"[sig-network] a: b | c", map[string]State{"kube-proxy": Passed, "gridmesh": Passed}, ""},
		{"[sig-network] d", map[string]State{"kube-proxy": Passed, "gridmesh": Failed}, "no node ports"},
	}, two)
	want := `| spec | kube-proxy | gridmesh | why |
|---|---|---|---|
| a: b \| c | passed | passed |  |
| d | passed | failed | no node ports |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	results := Results{
		"kube-proxy": {{"same", Passed, 1, ""}, {"lost", Passed, 1, ""}, {"won", Passed, 1, ""}, {"gone", Passed, 1, ""}, {"new", Passed, 1, ""}, {"left out", Skipped, 0, "one node"}},
		"gridmesh":   {{"same", Passed, 1, ""}, {"lost", Failed, 9, "refused"}, {"won", Passed, 1, ""}, {"gone", Absent, 0, "killed"}, {"left out", Passed, 1, ""}},
	}
	both := func(k, g State) map[string]State { return map[string]State{"kube-proxy": k, "gridmesh": g} }
	expected := []Expectation{
		{"same", both(Passed, Passed), ""},
		{"lost", both(Passed, Passed), ""},
		{"won", both(Passed, Failed), "w"},
		{"gone", both(Passed, Failed), "w"},
		{"left out", both(Passed, Passed), ""},
		{"not tried", both(Passed, Passed), ""},
	}
	worse, other := results.Compare(expected, two...)
	if diff := cmp.Diff([]string{
		"gridmesh: lost: failed, passed is expected: refused",
		"gridmesh: gone: absent, failed is expected: killed",
		"kube-proxy: left out: skipped, passed is expected: one node",
		"kube-proxy: not tried was not run, passed is expected",
		"gridmesh: not tried was not run, passed is expected",
	}, worse); diff != "" {
		t.Errorf("worse: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"gridmesh: won passed, failed is expected: change the list", "new is not in the list"}, other); diff != "" {
		t.Errorf("other: -want +got:\n%s", diff)
	}
	worse, _ = results.Compare(expected, "kube-proxy")
	if diff := cmp.Diff([]string{"kube-proxy: left out: skipped, passed is expected: one node", "kube-proxy: not tried was not run, passed is expected"}, worse); diff != "" {
		t.Errorf("of kube-proxy alone: -want +got:\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := (Results{
		"kube-proxy": {{"b", Passed, 61.4, ""}, {"a", Skipped, 0, "one node"}},
		"gridmesh":   {{"b", Failed, 120, "refused"}},
	}).Table(&out, two); err != nil {
		t.Fatal(err)
	}
	want := `kube-proxy  gridmesh     spec
skipped 0s  not run      a
passed 61s  failed 120s  b
kube-proxy: 1 passed, 0 failed, 1 skipped, 0 absent
gridmesh: 0 passed, 1 failed, 0 skipped, 0 absent
kube-proxy, skipped: a
    one node
gridmesh, failed: b
    refused
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A spec is run, or left out for a reason, and nothing else.
func TestUnexplained(t *testing.T) {
	run := []Expectation{{Spec: "a"}, {Spec: "b"}}
	for _, c := range []struct {
		left string
		want string // part of the error; "" for none
	}{
		{"c # no cloud", ""},
		{"# c is none\n", "c is neither run nor left out"},
		{"c # no cloud\nb # no cloud", "b is run, and left out"},
		{"c # no cloud\nd # no cloud", "d is left out, and Kubernetes has no such spec"},
		{"c", "line 1: c: say why"},
		{"c # no cloud\nc # no cloud", "line 2: c is there twice"},
	} {
		left, err := ReadLeftOut(strings.NewReader(c.left))
		if err == nil {
			err = Unexplained([]string{"a", "b", "c"}, run, left)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.left, err, c.want)
		}
	}
}
