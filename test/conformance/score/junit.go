package score

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// State is what a spec came to.
type State string

// The states. Skipped is a spec's own word: it says why. Absent is one that
// was to run and was not judged: its process, or its time, ended before.
const (
	Passed  State = "passed"
	Failed  State = "failed"
	Skipped State = "skipped"
	Absent  State = "absent"
)

// Outcome of one spec.
type Outcome struct {
	Spec    string  `json:"spec"`
	State   State   `json:"state"`
	Seconds float64 `json:"seconds"`
	Why     string  `json:"why,omitempty"` // unless it passed
}

type suites struct {
	Cases []testCase `xml:"testsuite>testcase"`
}

type testCase struct {
	Name    string  `xml:"name,attr"`
	Status  string  `xml:"status,attr"`
	Seconds float64 `xml:"time,attr"`
	Failure *remark `xml:"failure"`
	Error   *remark `xml:"error"`
	Skipped *remark `xml:"skipped"`
}

type remark struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// isSpec marks specs among what a report has; the others are the suite's own steps.
const isSpec = "[It] "

// ReadJUnit reads the report of a process that was to run specs. One that is
// not in it is Absent. A failed step of the suite itself is an error: then no
// spec was judged.
func ReadJUnit(r io.Reader, specs []string) ([]Outcome, error) {
	var report suites
	if err := xml.NewDecoder(r).Decode(&report); err != nil {
		return nil, fmt.Errorf("read JUnit report: %w", err)
	}
	found := map[string]Outcome{}
	for _, c := range report.Cases {
		o := c.outcome()
		if name, is := strings.CutPrefix(c.Name, isSpec); is {
			o.Spec = name
			found[name] = o
			continue
		}
		// What is written after the specs judges none of them.
		if o.State == Failed && strings.Contains(c.Name, "BeforeSuite") {
			return nil, fmt.Errorf("%s failed, so that no spec was run: %s", c.Name, o.Why)
		}
	}
	var list []Outcome
	for _, spec := range specs {
		o, there := found[spec]
		if !there {
			o = Outcome{Spec: spec, State: Absent, Why: "its process ended before it was run"}
		}
		list = append(list, o)
	}
	return list, nil
}

// AllAbsent is what specs come to whose process left no report.
func AllAbsent(specs []string, why string) (list []Outcome) {
	for _, spec := range specs {
		list = append(list, Outcome{Spec: spec, State: Absent, Why: why})
	}
	return list
}

func (c *testCase) outcome() Outcome {
	o := Outcome{State: Passed, Seconds: c.Seconds}
	switch {
	case c.notJudged():
		o.State, o.Why = Absent, "the suite ended before it did"
	case c.Failure != nil:
		o.State, o.Why = Failed, c.Failure.why()
	case c.Error != nil:
		o.State, o.Why = Failed, c.Error.why()
	case c.Skipped != nil:
		o.State, o.Why = Skipped, strings.TrimPrefix(c.Skipped.why(), "skipped - ")
	}
	return o
}

// notJudged reports whether the suite ended before the spec did: by its
// timeout, or because somebody ended it. Those that had not begun then are
// written as skipped, but for no reason.
func (c *testCase) notJudged() bool {
	switch c.Status {
	case "skipped":
		return c.Skipped != nil && c.Skipped.Message == "skipped"
	case "timedout":
		return c.Failure != nil && strings.Contains(c.Failure.Message+c.Failure.Text, "A suite timeout occurred")
	}
	return c.Status == "interrupted" || c.Status == "aborted"
}

// longestWhy bounds a reason; the process' log has all of it.
const longestWhy = 240

// stamp is the place and time that the suite puts before a message.
var stamp = regexp.MustCompile(`^\[FAILED\] |^In \[It\] at: .*$`)

// why is a remark's first words, on one line.
func (r *remark) why() string {
	text := r.Message
	if text == "" {
		text = r.Text
	}
	var words []string
	for line := range strings.Lines(text) {
		if line = stamp.ReplaceAllString(strings.TrimSpace(line), ""); line != "" {
			words = append(words, line)
		}
	}
	one := []rune(strings.Join(words, " "))
	if len(one) > longestWhy {
		return string(one[:longestWhy]) + "…"
	}
	return string(one)
}
