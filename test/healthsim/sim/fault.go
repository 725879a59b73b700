package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is something that goes wrong while a unit runs.
type Fault struct {
	name  string
	value string  // as it was given
	share float64 // of what takes one
}

func (f Fault) String() string {
	if f.value == "" {
		return f.name
	}
	return f.name + "=" + f.value
}

// kind is a fault that there is.
type kind struct {
	name     string
	standard string // the value where none is given; "" if it takes none
	words    []string
	what     string
}

// kinds are all faults, in the order of the help.
var kinds = []kind{
	{name: "crash", what: "a node dies for 3 minutes, every 8"},
	{name: "stall", standard: "5%", what: "the agents of that share of the nodes are stopped, each for 5 to 30 s, as by SIGSTOP"},
	{name: "freeze", standard: "5%", what: "whole nodes are, as virtual machines that are moved"},
	{name: "loss", standard: "10%", what: "of all packets"},
	{name: "oneway", standard: "50%", what: "of the packets to a fifth of the nodes, and of none from them"},
	{name: "halves", what: "the unit is cut in two for 10 minutes, every 15, each time another way"},
	{name: "thirds", what: "the same, and one part has a third"},
	{name: "uplink", standard: "one", words: []string{"one", "all"}, what: "a node, or all of them, has no uplink for 10 minutes, every 15"},
	{name: "restart", what: "the agent of a node ends and begins anew within 5 s, one node every 10 s"},
	{name: "nat", standard: "100%", what: "that share of the nodes is dialled by nobody; all: nobody sees anybody"},
	{name: "clock", what: "each node's clock is up to an hour off"},
}

// FaultHelp is a line for each fault.
func FaultHelp() string {
	var b strings.Builder
	for _, k := range kinds {
		name := k.name
		if k.standard != "" {
			name += "=" + k.standard
		}
		fmt.Fprintf(&b, "  %-12s %s\n", name, k.what)
	}
	return b.String()
}

// ParseFaults reads faults with commas between them, as crash,loss=30%.
func ParseFaults(text string) (list []Fault, err error) {
	var errs []error
	for _, one := range strings.Split(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		f, err := parseFault(one)
		if err == nil && slices.ContainsFunc(list, func(o Fault) bool { return o.name == f.name }) {
			err = fmt.Errorf("%s is said twice", f.name)
		}
		list, errs = append(list, f), append(errs, err)
	}
	return list, errors.Join(errs...)
}

func parseFault(text string) (f Fault, err error) {
	name, value, given := strings.Cut(text, "=")
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return f, fmt.Errorf("there is no fault %q: what there is are\n%s", name, strings.TrimRight(FaultHelp(), "\n"))
	}
	k := kinds[i]
	if !given {
		value = k.standard
	}
	f = Fault{name: name, value: value}
	switch {
	case k.standard == "" && given:
		return f, fmt.Errorf("%s takes no value", name)
	case k.standard == "" || slices.Contains(k.words, value):
		return f, nil
	case k.words != nil:
		return f, fmt.Errorf("%s=%s: must be %s", name, value, strings.Join(k.words, " or "))
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
	if err != nil || !strings.HasSuffix(value, "%") || !(percent > 0 && percent <= 100) {
		return f, fmt.Errorf("%s=%s: must be a share, as %s", name, value, k.standard)
	}
	f.share = percent / 100
	return f, nil
}

// MustFaults is ParseFaults of a text that is right.
func MustFaults(text string) []Fault {
	list, err := ParseFaults(text)
	if err != nil {
		panic(err)
	}
	return list
}
