package script

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verb is a kind of step. How often it comes is its weight.
type verb struct {
	name   string
	weight int
	args   []domain
}

// domain is what an argument may be.
type domain struct {
	name string
	has  func(World, string) bool
	pick func(*rand.Rand, World) string
}

// The verbs. What each does is package soak's.
var verbs = []verb{
	// Edits of objects.
	{"service", 12, []domain{service, keys, policy}},
	{"unservice", 3, []domain{service}},
	{"slice", 16, []domain{slice, endpoints}},
	{"move", 3, []domain{slice, service}},
	{"unslice", 4, []domain{slice}},
	{"label", 4, []domain{node, labelKey, labelValue, duration}},
	{"ports", 4, []domain{service, ports}},
	{"type", 3, []domain{service, kind}},
	{"affinity", 4, []domain{service, affinity}},
	{"networkpolicy", 3, []domain{network, whom, while}},
	{"grid", 4, []domain{grid, replicas}},
	{"version", 7, []domain{grid, template, version}},
	{"rollout", 3, []domain{grid, size, pause, order}},
	{"pause", 2, []domain{grid, duration}},
	{"template", 2, []domain{grid, unit, template}},
	{"ungrid", 1, []domain{grid}},
	// Programs that die, stop and start again.
	{"kill", 8, []domain{program, node, duration}},
	{"restart", 4, []domain{program, node}},
	{"stop", 4, []domain{program, node, duration}},
	{"controller", 2, []domain{manner, duration}},
	{"apiserver", 1, []domain{duration}},
	{"pod", 3, []domain{node}},
	// Links.
	{"cut-uplink", 4, []domain{unit, duration}},
	{"cut-node", 2, []domain{node, duration}},
	{"darken", 1, []domain{unit}},
	// What others do to a node.
	{"flush", 2, []domain{node}},
	{"unrule", 2, []domain{node}},
	{"unroute", 2, []domain{node}},
	{"unchain", 2, []domain{node}},
	{"freeze", 2, []domain{node, duration}},
	{"fill", 2, []domain{node, duration}},
	{"clock", 4, []domain{place, ahead, duration}},
	// Everything is mended, and judged.
	{Calm, 0, nil},
}

// Calm is the verb after which everything must be in order again.
const Calm = "calm"

// knownBroken are verbs that a soak leaves out, with what they would show. A
// list of steps that names one is played all the same.
var knownBroken = map[string]string{}

var (
	service    = oneOf("SERVICE", names("s", Services)...)
	slice      = oneOf("SLICE", names("x", 8)...)
	grid       = oneOf("GRID", names("g", 2)...)
	network    = oneOf("POLICY", names("n", 2)...)
	keys       = oneOf("KEYS", "unit", "unit", "unit", "unit,*", "zone,unit", "zone,*", "none", "typo")
	policy     = oneOf("Cluster|Local", "Cluster", "Cluster", "Cluster", "Local")
	ports      = oneOf("PORTS", "main", "main,alt", "main,udp", "main,alt,udp", "one")
	kind       = oneOf("ClusterIP|NodePort", "ClusterIP", "NodePort", "NodePort")
	affinity   = oneOf("none|SECONDS", "none", "5s", "30s", "3h0m0s")
	whom       = oneOf("WHOM", "nobody", "app", "client", "all")
	template   = oneOf("default|canary", "default", "default", "canary")
	version    = oneOf("VERSION", "v1", "v2", "v3")
	size       = oneOf("none|SIZE", "none", "1", "1", "2", "50%", "100%")
	pause      = oneOf("PAUSE", "0s", "1s", "3s")
	order      = oneOf("ORDER", "-", "-", "c", "b,a")
	labelKey   = oneOf("unit|zone", "unit", "zone")
	replicas   = oneOf("REPLICAS", "0", "1", "2")
	program    = oneOf("agent|envoy|dns", "agent", "agent", "envoy", "dns")
	manner     = oneOf("kill|stop|restart", "kill", "stop", "restart")
	node       = of("NODE", World.Nodes)
	unit       = of("UNIT", World.units)
	place      = of("NODE|controller", func(w World) []string { return append(w.Nodes(), Controller) })
	labelValue = of("UNIT|none", func(w World) []string { return append(w.units(), "none") })

	duration = domain{
		name: "TIME",
		has: func(_ World, text string) bool {
			d, err := time.ParseDuration(text)
			return err == nil && d > 0 && d <= 10*time.Minute
		},
		pick: func(r *rand.Rand, _ World) string {
			// Mostly short: what overlaps is more than what lasts.
			return (time.Duration(1+r.IntN(8)) * time.Second).String()
		},
	}

	// while is for what nodes look for now and then: mostly longer than duration.
	while = domain{name: duration.name, has: duration.has, pick: oneOf("", "3s", "20s", "1m0s", "2m30s").pick}

	// ahead is how far a clock is set: up to where certificates are valid.
	ahead = domain{
		name: "AHEAD",
		has: func(_ World, text string) bool {
			d, err := time.ParseDuration(text)
			return err == nil && d.Truncate(time.Second) == d && d != 0 && d.Abs() <= 30*24*time.Hour
		},
		pick: oneOf("", "-26h", "-1h", "-2m", "-10s", "10s", "2m", "1h", "26h").pick,
	}

	// endpoints are nodes whose pod is one, joined by commas: "a-1" is ready,
	// "a-1!" is not, "a-1~" terminates and serves, and "a-1?" is an address
	// where nobody is. "-" is none at all.
	endpoints = domain{name: "NODE[!~?],...", has: hasEndpoints, pick: pickEndpoints}
)

// Controller stands for where the controller runs.
const Controller = "controller"

const endpointMarks = "!~?"

// ServiceOf is the Service of a slice, unless it is moved: by their numbers.
func ServiceOf(slice string) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(slice, "x"))
	return fmt.Sprintf("s%d", n%Services)
}

// Services is how many there are, s0 and so on.
const Services = 6

// Endpoint is one of the endpoints of a slice.
type Endpoint struct {
	Node                         string
	Unready, Terminating, Absent bool
}

// Endpoints reads the last argument of a slice.
func Endpoints(text string) (list []Endpoint) {
	if text == "-" {
		return nil
	}
	for word := range strings.SplitSeq(text, ",") {
		name := strings.TrimRight(word, endpointMarks)
		marks := word[len(name):]
		list = append(list, Endpoint{name, strings.Contains(marks, "!"), strings.Contains(marks, "~"), strings.Contains(marks, "?")})
	}
	return list
}

func hasEndpoints(w World, text string) bool {
	seen := map[string]bool{}
	for _, e := range Endpoints(text) {
		if seen[e.Node] || w.UnitOf(e.Node) == "" {
			return false
		}
		seen[e.Node] = true
	}
	return true
}

func pickEndpoints(r *rand.Rand, w World) string {
	var words []string
	for _, n := range w.Nodes() {
		switch r.IntN(12) {
		case 0, 1, 2, 3, 4, 5:
			words = append(words, n)
		case 6:
			words = append(words, n+"!")
		case 7:
			words = append(words, n+"~")
		case 8:
			words = append(words, n+"?")
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ",")
}

func oneOf(name string, list ...string) domain {
	return of(name, func(World) []string { return list })
}

func of(name string, list func(World) []string) domain {
	return domain{
		name: name,
		has:  func(w World, text string) bool { return slices.Contains(list(w), text) },
		pick: func(r *rand.Rand, w World) string { l := list(w); return l[r.IntN(len(l))] },
	}
}

func find(name string) (*verb, bool) {
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == name })
	if i < 0 {
		return nil, false
	}
	return &verbs[i], true
}

func (v *verb) usage() string {
	words := []string{v.name}
	for _, a := range v.args {
		words = append(words, a.name)
	}
	return strings.Join(words, " ")
}

// Verbs are the names of all verbs.
func Verbs() (list []string) {
	for _, v := range verbs {
		list = append(list, v.name)
	}
	return list
}

// LeftOut says which verbs Generate leaves out, and why.
func LeftOut() (list []string) {
	for name, why := range knownBroken {
		list = append(list, fmt.Sprintf("%s (%s)", name, why))
	}
	slices.Sort(list)
	return list
}
