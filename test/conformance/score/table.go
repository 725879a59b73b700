package score

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Results are the outcomes of each proxy's run.
type Results map[string][]Outcome

// find returns a spec's outcome, if it was to run with a proxy.
func (r Results) find(proxy, spec string) (Outcome, bool) {
	i := slices.IndexFunc(r[proxy], func(o Outcome) bool { return o.Spec == spec })
	if i < 0 {
		return Outcome{}, false
	}
	return r[proxy][i], true
}

// specs lists what was run with any proxy, sorted.
func (r Results) specs() (list []string) {
	for _, outcomes := range r {
		for _, o := range outcomes {
			list = append(list, o.Spec)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Table writes a line for each spec with a column for each of some proxies, then sums,
// then why each spec that did not pass did not.
func (r Results) Table(w io.Writer, proxies []string) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s\tspec\n", strings.Join(proxies, "\t"))
	sums := map[string]map[State]int{}
	var reasons []string
	for _, spec := range r.specs() {
		for _, proxy := range proxies {
			o, ran := r.find(proxy, spec)
			if !ran {
				fmt.Fprint(out, "not run\t")
				continue
			}
			fmt.Fprintf(out, "%s %.0fs\t", o.State, o.Seconds)
			if sums[proxy] == nil {
				sums[proxy] = map[State]int{}
			}
			sums[proxy][o.State]++
			if o.State != Passed {
				reasons = append(reasons, fmt.Sprintf("%s, %s: %s\n    %s", proxy, o.State, spec, o.Why))
			}
		}
		fmt.Fprintln(out, spec)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, proxy := range proxies {
		n := sums[proxy]
		fmt.Fprintf(w, "%s: %d passed, %d failed, %d skipped, %d absent\n", proxy, n[Passed], n[Failed], n[Skipped], n[Absent])
	}
	_, err := fmt.Fprint(w, strings.Join(append(reasons, ""), "\n"))
	return err
}

// Compare holds the results of some proxies against what is expected. Worse is what must not be: a
// spec that passed and does not, or that was to run and did not. Other says
// what the list does not: a spec that came to something better, and one that
// is not in it.
func (r Results) Compare(expected []Expectation, proxies ...string) (worse, other []string) {
	known := map[string]bool{}
	for _, e := range expected {
		known[e.Spec] = true
		for _, proxy := range proxies {
			want := e.States[proxy]
			o, ran := r.find(proxy, e.Spec)
			switch {
			case !ran:
				worse = append(worse, fmt.Sprintf("%s: %s was not run, %s is expected", proxy, e.Spec, want))
			case o.State == want:
			case o.State == Passed:
				other = append(other, fmt.Sprintf("%s: %s passed, %s is expected: change the list", proxy, e.Spec, want))
			default:
				worse = append(worse, fmt.Sprintf("%s: %s: %s, %s is expected: %s", proxy, e.Spec, o.State, want, o.Why))
			}
		}
	}
	for _, spec := range r.specs() {
		if !known[spec] {
			other = append(other, spec+" is not in the list")
		}
	}
	return worse, other
}
