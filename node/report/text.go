package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/topology"
)

// textFew is how many refusals, and mistakes of others, are said before there is only
// their number.
const textFew = 5

// WriteText writes the report for people, a line a fact: first what is wrong with this
// node itself.
func (r *Report) WriteText(w io.Writer, now time.Time) error {
	p := &printer{w: w}
	r.warnings(p, now)
	p.line("version", "%s", r.Version)
	p.line("node", "%s", r.Node)
	for _, key := range slices.Sorted(maps.Keys(r.Unit)) {
		p.line("unit", "%s=%s", key, r.Unit[key])
	}
	switch {
	case r.UnitUnknown:
		p.line("unit", "unknown: what is served has no Node %s, and nobody knows its labels; of closed Services it reaches nobody", r.Node)
	case len(r.Unit) == 0 && len(r.UnitWithout) > 0:
		p.line("unit", "none: the node has no label %s", Few(r.UnitWithout))
	case len(r.Unit) == 0 && r.Source != None:
		p.line("unit", "none: as far as is known no Service has a label of nodes in its topologyKeys")
	}
	p.line("source", "%s", r.sourceText(now))
	if r.APIServer != nil {
		r.APIServer.lines(p, now)
	}
	if r.Source != None {
		p.line("pods", "%s", r.Pods)
		p.line("services", "%d, %d clusters preloaded", r.Services, r.Preloaded)
		if r.Paths != nil {
			p.line("datapath", "%s", r.pathsText())
		}
		r.unreachedLines(p)
		if r.BesideKubeProxy {
			p.line("kube-proxy", "%s", r.besideText(now))
		}
		if text := r.policiesText(now) + r.unwatchedText(now); text != "" { // one of them at most
			p.line("policies", "%s", text)
		}
	}
	if h := r.Held; h != nil {
		p.line("held", "%d endpoints on %s as before the outage, until these nodes have reported, for %s at the latest", h.Endpoints, Few(h.Nodes), since(now, h.Until))
	}
	if n := len(r.VotedDead) + r.MoreDead; n > 0 {
		p.line("dead", "%d of the unit's nodes, by its vote: %s; endpoints on others come first until the API server has heard them", n, Few(r.VotedDead))
	}
	r.envoyLines(p, now)
	for _, note := range r.Notes {
		p.line("note", "%s", note)
	}
	if r.Notices > 0 {
		p.line("note", "%d times Services ask for what no node serves: gridmesh view has each as a notice", r.Notices)
	}
	lost := r.Lost() // which have been said
	others := slices.DeleteFunc(slices.Clone(r.Problems), func(p topology.Problem) bool { return slices.Contains(lost, p) })
	for _, problem := range others[:min(len(others), textFew)] {
		p.line("problem", "%s", problem)
	}
	if len(others) > textFew || r.More > 0 {
		p.line("problem", "%d in all: gridmesh view lists them", len(r.Problems)+r.More)
	}
	return p.err
}

// unreachedLines name closed Services that nobody on this node reaches.
func (r *Report) unreachedLines(p *printer) {
	if text := r.elsewhere(); text != "" {
		p.line("elsewhere", "%s: here they are refused, and gridmesh view shows why", text)
	}
	if text := r.nowhere(); text != "" {
		p.line("nowhere", "%s: they are refused; see that their selectors match pods, and that these run", text)
	}
	if text := r.portless(); text != "" {
		p.line("portless", "%s: it is refused; see their targetPort, and that pods have a port of that name", text)
	}
}

// warnings are what --check says, of many refusals some: all of them have their lines.
func (r *Report) warnings(p *printer, now time.Time) {
	brief := *r
	if more := len(r.Nacks) - textFew; more > 0 {
		brief.Nacks, brief.MoreNacks = r.Nacks[:textFew], r.MoreNacks+more
	}
	for _, text := range brief.Degraded(now) {
		p.line("WARNING", "%s", text)
	}
}

// sourceText says where what is served comes from, and how old that is. That
// nothing changed for long is no bad sign; a silence is one.
func (r *Report) sourceText(now time.Time) string {
	if r.Source == None {
		return r.Source + ": nothing is served before the first snapshot; what a run before left in force goes on"
	}
	text := fmt.Sprintf("%s, changed %s ago", r.Source, since(r.Updated, now))
	if r.Updated.IsZero() {
		text = r.Source + ", not in force yet"
	}
	switch silent := now.Sub(r.LastContact); {
	case r.LastContact.IsZero() && r.Source == Live: // of an agent that does not say
	case r.LastContact.IsZero():
		text += "; no contact with the source since the agent started"
	case silent >= outage.After:
		text += fmt.Sprintf("; no contact with the source for %s", since(r.LastContact, now))
	}
	return text
}

// envoyLines says what is known of Envoy.
func (r *Report) envoyLines(p *printer, now time.Time) {
	if r.EnvoyUnknown != "" {
		p.line("envoy", "cannot be asked whether it serves: %s", r.EnvoyUnknown)
	}
	if r.EnvoyAbsent {
		p.line("envoy", "%s", absentText)
	}
	if back := r.backText(now); back != "" {
		p.line("envoy", "%s", back)
	}
	if len(r.Envoys) == 0 {
		p.line("envoy", "not connected")
	}
	for _, e := range r.Envoys {
		p.line("envoy", "%s, connected for %s, %d clusters", e.Version, since(e.Since, now), e.Clusters)
		if e.Over > 0 {
			p.line("envoy", "asked for %d clusters more than it gets: connections to those end until they are preloaded in their turn, one in 30s; restart it, and look for who dials every Service", e.Over)
		}
		if e.Kept > 0 {
			p.line("envoy", "keeps %d clusters that nothing needs any more, until the kernel has taken a whole view: it may hand Envoy connections to them", e.Kept)
		}
		if e.Cut > 0 {
			p.line("envoy", "has a part of %d clusters that it asked for, %d endpoints of each, the nearest: together they have more than it may hold", e.Cut, e.Part)
		}
	}
	if r.Ejections != nil && len(r.Envoys) > 0 {
		ejectionLines(p, r.Ejections, now)
	}
	if r.Load != nil && len(r.Envoys) > 0 {
		loadLines(p, r.Load)
	}
	for _, n := range r.Nacks {
		p.line("refused", "%s %s (service %s): %s", n.Type, n.Name, n.Service, n.Reason)
	}
	if r.MoreNacks > 0 {
		p.line("refused", "and %d more", r.MoreNacks)
	}
}

// ejectionLines say what nobody is sent to, and how old that news is where it is old.
func ejectionLines(p *printer, e *envoy.Ejections, now time.Time) {
	switch {
	case e.Error != "" && e.At.IsZero():
		p.line("envoy", "its admin socket gives no answer, so that ejections and use are unknown: %s", e.Error)
	case e.Error != "":
		p.line("envoy", "its admin socket gives no answer for %s, so that ejections and use are unknown: %s", since(e.At, now), e.Error)
	case now.Sub(e.At) > envoy.AnswerWithin:
		p.line("envoy", "its admin socket is slow to answer; ejections are those of %s ago", since(e.At, now))
	}
	for _, j := range e.List {
		var ends []string
		for _, end := range j.Endpoints {
			text := end.Address.String()
			if end.Unhealthy {
				text += " (unhealthy, as Envoy was told)"
			}
			ends = append(ends, text)
		}
		if more := j.Out - len(ends); more > 0 && len(ends) > 0 {
			ends = append(ends, fmt.Sprintf("and %d more", more))
		}
		which := ""
		if len(ends) > 0 {
			which = ": " + strings.Join(ends, ", ")
		}
		p.line("ejected", "%d of %d endpoints of %s (%s)%s", j.Out, j.Of, j.Service, j.Cluster, which)
	}
	if e.More > 0 {
		p.line("ejected", "endpoints of %d more clusters", e.More)
	}
	if text := noneLive(e); text != "" {
		p.line("ejected", "%s: who dials it fails until one answers, and gridmesh view shows which", text)
	}
}

// noneLive says of which Services nothing is left to be sent to; "" for none.
func noneLive(e *envoy.Ejections) string {
	return counted(e.NoneLive, e.MoreNoneLive, "Service has", "Services have", "a port without a live endpoint")
}

// counted says what those that are named, and more, have; "" where there are none.
func counted(names []string, more int, one, several, what string) string {
	n := len(names) + more
	switch n {
	case 0:
		return ""
	case 1:
		several = one
	}
	return fmt.Sprintf("%d %s %s: %s", n, several, what, Few(names))
}

// loadLines say how loaded Envoy is.
func loadLines(p *printer, l *envoy.Load) {
	text := fmt.Sprintf("%d connections of clients are open", l.Connections)
	if l.Heap > 0 {
		text += fmt.Sprintf(", %d %% of its memory is used", l.Heap)
	}
	p.line("envoy", "%s", text)
	switch {
	case l.Full():
		p.line("overload", "takes no more connections: %s; %d were refused since its start, %d of them just now; look for who holds them, or raise the limit", l.Why(), l.Refused, l.Newly)
	case l.Refused > 0:
		p.line("overload", "%d connections were refused since Envoy's start, none just now", l.Refused)
	}
}

// lines says how the API server answers, and what of it is not believed.
func (s APIServer) lines(p *printer, now time.Time) {
	p.line("api server", "%s", s.text(now))
	for _, held := range s.Held {
		p.line("api server", "not believed: %s", held)
	}
}

// text says in words how the API server answers. Bookmarks come about once a
// minute.
func (s APIServer) text(now time.Time) string {
	ago := since(s.LastContact, now)
	switch {
	case s.LastContact.IsZero() && s.Error == "":
		return "no answer yet"
	case s.refuses():
		long := ""
		if !s.Refused.IsZero() {
			long = ", for " + since(s.Refused, now).String()
		}
		return fmt.Sprintf("refuses what this agent asks for%s; this node goes on with what it knows: %s; see that its credentials are valid, and have the rights that deploy/ gives it", long, s.Error)
	case s.LastContact.IsZero():
		return "unavailable since the agent started: " + s.Error
	case s.Error != "" && !s.Since.IsZero() && s.LastContact.After(s.Since) && now.Sub(s.LastContact) <= quietFor:
		return fmt.Sprintf("last contact %s ago, but something has failed for %s; this node goes on with what it knows of that: %s", ago, since(s.Since, now), s.Error)
	case s.Error != "":
		return fmt.Sprintf("unavailable for %s; this node goes on with what it knows: %s", ago, s.Error)
	case now.Sub(s.LastContact) > quietFor: // a line that is dead in silence gives no error
		return fmt.Sprintf("unavailable for %s; this node goes on with what it knows: there is no contact", ago)
	default:
		return fmt.Sprintf("last contact %s ago", ago)
	}
}

func since(at, now time.Time) time.Duration { return now.Sub(at).Round(time.Second) }

// printer writes lines until one fails.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(key, format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, "%-11s %s\n", key, run.Printable(fmt.Sprintf(format, args...), ""))
	}
}

// Few is the first of many names.
func Few(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
