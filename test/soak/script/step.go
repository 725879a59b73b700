package script

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Step is one thing that is done, at a time since the start.
type Step struct {
	At   time.Duration
	Verb string
	Args []string
}

// String is the step's line: "1.250s kill agent a-1 4s".
func (s Step) String() string {
	return strings.Join(append([]string{s.At.String(), s.Verb}, s.Args...), " ")
}

// For is how long the step lasts: its last argument, where that is a time.
func (s Step) For() time.Duration {
	v, ok := find(s.Verb)
	if !ok || len(v.args) == 0 || v.args[len(v.args)-1].name != duration.name || len(s.Args) != len(v.args) {
		return 0
	}
	d, err := time.ParseDuration(s.Args[len(s.Args)-1])
	if err != nil {
		return 0
	}
	return d
}

// Print is a list as text, a step a line.
func Print(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(s.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Parse reads what Print wrote, or what a person did: empty lines and what
// follows a # do not count, and the order of the lines does not matter. Every
// mistake is named with its line.
func Parse(w World, text string) (steps []Step, err error) {
	var errs []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		s, err := parse(w, fields)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		steps = append(steps, s)
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return steps, errors.Join(errs...)
}

func parse(w World, fields []string) (Step, error) {
	if len(fields) < 2 {
		return Step{}, fmt.Errorf("%q is no step: say TIME VERB ARGUMENTS, as in 1.5s flush a-1", fields[0])
	}
	at, err := time.ParseDuration(fields[0])
	if err != nil || at < 0 || at > longest {
		return Step{}, fmt.Errorf("%q is no time between 0s and %s", fields[0], longest)
	}
	s := Step{At: at, Verb: fields[1], Args: fields[2:]}
	v, ok := find(s.Verb)
	if !ok {
		return Step{}, fmt.Errorf("%q is no verb: say %s", s.Verb, strings.Join(Verbs(), ", "))
	}
	if len(s.Args) != len(v.args) {
		return Step{}, fmt.Errorf("%s has %d arguments: say %s", s.Verb, len(s.Args), v.usage())
	}
	for i, a := range v.args {
		if !a.has(w, s.Args[i]) {
			return Step{}, fmt.Errorf("%s: %q is no %s: say %s", s.Verb, s.Args[i], a.name, v.usage())
		}
	}
	return s, nil
}

// longest bounds a list.
const longest = 24 * time.Hour
