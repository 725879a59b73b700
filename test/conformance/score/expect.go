package score

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Proxies that specs are run with, in the order of columns: gridmesh as deploy/
// has it, and with another --datapath.
var Proxies = []string{"kube-proxy", "gridmesh", "gridmesh-envoy", "gridmesh-kernel"}

// PolicyProxies are those that specs are run with beside an engine that enforces
// NetworkPolicies: --datapath=envoy obeys none.
var PolicyProxies = []string{"kube-proxy", "gridmesh", "gridmesh-kernel"}

// Expectation is a line of the list: a spec, what it comes to with each proxy,
// and, unless it passes with all, why.
type Expectation struct {
	Spec   string
	States map[string]State // by proxy
	Why    string
}

// ReadExpectations reads lines "STATE … SPEC # why", a state for each of
// the proxies; lines that begin with # are for people.
func ReadExpectations(r io.Reader, proxies []string) ([]Expectation, error) {
	return readList(r, func(line string) (Expectation, string, error) {
		e, err := readExpectation(line, proxies)
		return e, e.Spec, err
	})
}

// readList reads a list of specs, each in a line that read takes apart, and names none
// twice; lines that begin with # are for people.
func readList[T any](r io.Reader, read func(line string) (entry T, spec string, err error)) (list []T, err error) {
	var errs []error
	named := map[string]bool{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		entry, spec, err := read(line)
		if err == nil && named[spec] {
			err = fmt.Errorf("%s is there twice", spec)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
		}
		named[spec] = true
		list = append(list, entry)
	}
	return list, errors.Join(append(errs, lines.Err())...)
}

func readExpectation(line string, proxies []string) (e Expectation, err error) {
	e.States = map[string]State{}
	rest := line
	bad := false
	for _, proxy := range proxies {
		var word string
		word, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
		state := State(word)
		if state != Passed && state != Failed && state != Skipped {
			return e, fmt.Errorf("%q is no state of a spec with %s: say passed, failed or skipped, one for each of %s", word, proxy, strings.Join(proxies, ", "))
		}
		e.States[proxy] = state
		bad = bad || state != Passed
	}
	e.Spec, e.Why, _ = strings.Cut(strings.TrimSpace(rest), " # ")
	e.Spec = strings.TrimSpace(e.Spec)
	switch {
	case e.Spec == "":
		return e, errors.New("it names no spec")
	case bad && strings.TrimSpace(e.Why) == "":
		return e, fmt.Errorf("%s does not pass with every proxy: say why behind \" # \"", e.Spec)
	}
	return e, nil
}

// Markdown is the list as a table for docs/conformance.md: a column for each of
// the proxies, and why what does not pass does not.
func Markdown(list []Expectation, proxies []string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "| spec | %s | why |\n|---|%s---|\n", strings.Join(proxies, " | "), strings.Repeat("---|", len(proxies)))
	for _, e := range list {
		fmt.Fprintf(&out, "| %s |", cell(e.Spec))
		for _, proxy := range proxies {
			fmt.Fprintf(&out, " %s |", e.States[proxy])
		}
		fmt.Fprintf(&out, " %s |\n", e.Why)
	}
	return out.String()
}
