package score

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// LeftOut is a spec that is not run, and why.
type LeftOut struct{ Spec, Why string }

// ReadLeftOut reads lines "SPEC # why"; lines that begin with # are for people.
func ReadLeftOut(r io.Reader) ([]LeftOut, error) {
	return readList(r, func(line string) (l LeftOut, spec string, err error) {
		spec, why, _ := strings.Cut(line, " # ")
		l = LeftOut{strings.TrimSpace(spec), strings.TrimSpace(why)}
		if l.Why == "" {
			err = fmt.Errorf("%s: say why it is not run behind \" # \"", l.Spec)
		}
		return l, l.Spec, err
	})
}

// Unexplained says which of all specs are in neither list, in both, or in the second and not there.
func Unexplained(all []string, run []Expectation, left []LeftOut) error {
	times := map[string]int{}
	for _, e := range run {
		times[e.Spec]++
	}
	var errs []error
	for _, l := range left {
		if times[l.Spec]++; !slices.Contains(all, l.Spec) {
			errs = append(errs, fmt.Errorf("%s is left out, and Kubernetes has no such spec", l.Spec))
		}
	}
	for _, spec := range all {
		switch n := times[spec]; {
		case n == 0:
			errs = append(errs, fmt.Errorf("%s is neither run nor left out for a reason", spec))
		case n > 1:
			errs = append(errs, fmt.Errorf("%s is run, and left out", spec))
		}
	}
	return errors.Join(errs...)
}

// MarkdownLeftOut is that list as a table for docs/conformance.md.
func MarkdownLeftOut(list []LeftOut) string {
	var out strings.Builder
	out.WriteString("| spec | why it is not run |\n|---|---|\n")
	for _, l := range list {
		fmt.Fprintf(&out, "| %s | %s |\n", cell(l.Spec), l.Why)
	}
	return out.String()
}

// cell is a spec's name in a table.
func cell(spec string) string {
	return strings.ReplaceAll(strings.TrimPrefix(spec, "[sig-network] "), "|", `\|`)
}
