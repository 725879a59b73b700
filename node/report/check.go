package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// quietFor is how long the API server, or Envoy's admin socket, may say nothing
// before the node counts as degraded: a moment is no news.
const quietFor = time.Minute

// Degraded lists what is not as it should be, a line each; nothing where all is
// well. What needs no look at this node is left out: mistakes in objects, which
// every node sees alike, and endpoints that Envoy leaves out of use.
func (r *Report) Degraded(now time.Time) []string {
	var list []string
	add := func(format string, args ...any) {
		list = append(list, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
	}
	switch r.Source {
	case None:
		add("nothing is served before the first snapshot")
	case LastGood:
		add("it serves from the last good state")
	}
	if r.Error != "" {
		add("the rules are not as they should be: %s", r.Error)
	}
	if r.APIServer != nil {
		if now.Sub(r.APIServer.LastContact) > quietFor {
			add("API server: %s", r.APIServer.text(now))
		}
		for _, held := range r.APIServer.Held {
			add("API server: not believed: %s", held)
		}
	}
	r.degradedEnvoy(now, add)
	for _, f := range r.Findings {
		add("%s", f.Text)
	}
	return list
}

// degradedEnvoy lists what is wrong with Envoy, or between it and the agent.
func (r *Report) degradedEnvoy(now time.Time, add func(format string, args ...any)) {
	if r.Datapath == topology.DatapathKernel.String() && (r.Paths == nil || r.Paths.Envoy == 0) {
		return // it is not needed
	}
	if r.EnvoyAbsent {
		add("Envoy takes no connections: the kernel serves the first tier of what it served")
	}
	if len(r.Envoys) == 0 {
		add("no Envoy is connected")
		return
	}
	for _, e := range r.Envoys {
		if e.Over > 0 {
			add("Envoy asked for %d clusters more than it gets", e.Over)
		}
	}
	for _, n := range r.Nacks {
		add("Envoy refuses %s %s (service %s): %s", n.Type, n.Name, n.Service, n.Reason)
	}
	if r.MoreNacks > 0 {
		add("Envoy refuses %d resources more", r.MoreNacks)
	}
	if e := r.Ejections; e != nil && e.Error != "" && now.Sub(e.At) > quietFor {
		add("Envoy's admin socket gives no answer: %s", e.Error)
	}
	if l := r.Load; l != nil && l.Full() {
		add("Envoy takes no more connections: %s", l.Why())
	}
}

// Summary is a report of a node that is well, in a line.
func (r *Report) Summary() string {
	var envoys []string
	for _, e := range r.Envoys {
		envoys = append(envoys, e.Version)
	}
	return fmt.Sprintf("%s, %d services, Envoy %s", r.Source, r.Services, strings.Join(envoys, " and "))
}
