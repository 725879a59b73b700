package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
)

// quietFor is how long the API server, or Envoy's admin socket, may say nothing
// before the node counts as degraded: a moment is no news.
const quietFor = time.Minute

// refusedFor is how long an API server that starts may refuse who has the rights.
const refusedFor = 10 * time.Second

// Degraded lists what is not as it should be, a line each; nothing where all is
// well. What needs no look at this node is left out: mistakes in objects, which
// every node sees alike (but for manifests, which are this node's), and endpoints that Envoy leaves out of use.
func (r *Report) Degraded(now time.Time) []string {
	var list []string
	add := func(format string, args ...any) {
		list = append(list, run.Printable(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "), ""))
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
		if r.APIServer.fails(now) {
			add("API server: %s", r.APIServer.text(now))
		}
		for _, held := range r.APIServer.Held {
			add("API server: not believed: %s", held)
		}
	}
	r.degradedManifests(add)
	r.degradedEnvoy(now, add)
	for _, f := range r.Findings {
		add("%s", f.Text)
	}
	return list
}

// degradedManifests lists what is not in force as the manifests of this node have it now.
func (r *Report) degradedManifests(add func(format string, args ...any)) {
	lost := r.Lost()
	for _, p := range lost[:min(len(lost), textFew)] {
		add("--manifests: %s", p)
	}
	if more := len(lost) - textFew; more > 0 {
		add("--manifests: %d more such problems", more)
	}
}

// Lost are the Problems of what is not in force as this node's manifests have it, where it has
// any. An API server admits nothing of that kind, and all nodes would say the same.
func (r *Report) Lost() (list []topology.Problem) {
	if r.APIServer != nil {
		return nil
	}
	for _, p := range r.Problems {
		if p.Loss != topology.LostNothing {
			list = append(list, p)
		}
	}
	return list
}

// degradedEnvoy lists what is wrong with Envoy, or between it and the agent.
func (r *Report) degradedEnvoy(now time.Time, add func(format string, args ...any)) {
	if !r.EnvoyHasPart() {
		return // it is not needed
	}
	for _, f := range r.Faults(func(xds.Nack) bool { return true }) {
		if f.Then != "" {
			f.What += " (" + f.Then + ")"
		}
		add("%s", f.What)
	}
	if back := r.backText(now); back != "" {
		add("Envoy %s", back)
	}
	if e := r.Ejections; e != nil && len(r.Envoys) > 0 && !r.EnvoyAbsent && e.Error != "" && now.Sub(e.At) > quietFor {
		add("Envoy's admin socket gives no answer: %s", e.Error)
	}
}

// Summary is a report of a node that is well, in a line. That a Service has died, or is not
// in the unit, is no fault of the node's, and is said all the same.
func (r *Report) Summary() string {
	var envoys []string
	for _, e := range r.Envoys {
		envoys = append(envoys, e.Version)
	}
	by := "Envoy " + strings.Join(envoys, " and ")
	if len(envoys) == 0 {
		by = "no Envoy connected, and the kernel serves for it"
	}
	if !r.EnvoyHasPart() {
		by = "all by the kernel"
	}
	text := fmt.Sprintf("%s, %d services, %s", r.Source, r.Services, by)
	for _, refused := range []string{r.elsewhere(), r.nowhere(), r.portless()} {
		if refused != "" {
			text += "; " + refused
		}
	}
	if e := r.Ejections; e != nil && len(envoys) > 0 {
		if dead := noneLive(e); dead != "" {
			text += "; " + dead
		}
	}
	return text
}

// fails reports whether the API server says nothing for long, or not to all that is asked.
func (s *APIServer) fails(now time.Time) bool {
	return s.refuses() && now.Sub(s.Refused) > refusedFor || now.Sub(s.LastContact) > quietFor || s.Error != "" && !s.Since.IsZero() && now.Sub(s.Since) > quietFor
}
