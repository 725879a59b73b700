package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// What Explain tells is bounded.
const (
	explainedObjects   = 16
	explainedVersions  = 5 // of each, the newest
	explainedEndpoints = 6 // of each
)

const clock = "15:04:05.000"

// Explain says by what Allowed judges a node at a frontend: which versions of
// Services, slices and nodes count, since when the API server had each, and
// which of them the node was last told of.
func (h *History) Explain(t *Told, f topology.Frontend, s Span) string {
	w := judged{h, t, s}.widest()
	var b strings.Builder
	fmt.Fprintf(&b, "%s may have had what it was told of by %s, up to the news of %s", t.node, s.From.Format(clock), s.To.Format(clock))
	if !s.Held.IsZero() {
		fmt.Fprintf(&b, ", and held of its unit what it was told of by %s", s.Held.Format(clock))
	}
	list := w.at(f)
	if len(list) == 0 {
		what := f.Addr.String()
		if f.Addr.IsUnspecified() {
			what = fmt.Sprintf("node port %d/%s", f.Port, f.Protocol)
		}
		fmt.Fprintf(&b, "\n%s is no Service's", what)
	}
	left := explainedObjects
	for _, key := range list {
		ids, _ := w.choices(key)
		// Its own object and its slices before the nodes, which are the same for all.
		slices.SortStableFunc(ids, func(a, c ID) int { return int(a.Kind) - int(c.Kind) })
		for _, id := range ids {
			if left--; left < 0 {
				fmt.Fprint(&b, "\nand more")
				return b.String()
			}
			fmt.Fprintf(&b, "\n%s: %s", id, w.explain(id))
		}
		if !s.Held.IsZero() {
			fmt.Fprintf(&b, "\nmay be held for another Service: %s", or(w.elsewhere(key).String(), "nothing"))
		}
	}
	return b.String()
}

// explain lists the versions of an object that count.
func (w window) explain(id ID) string {
	told, known := w.t.last(id, w.to)
	var words []string
	list := w.candidates(id)
	if n := len(list) - explainedVersions; n > 0 {
		words, list = append(words, fmt.Sprintf("%d older ones", n)), list[n:]
	}
	for _, i := range list {
		v := w.h.objects[id][i]
		word := v.text(w.h.labels) + " from " + or(since(v.at), "the start")
		if known && told.version == i {
			word += ", told at " + told.at.Format(clock)
		}
		words = append(words, word)
	}
	switch {
	case len(words) == 0:
		words = []string{"not made yet"}
	case !known:
		words = append(words, "the node was told of none")
	case !slices.Contains(list, told.version):
		words = append(words, "the node was last told of another, at "+told.at.Format(clock))
	}
	return strings.Join(words, "; ")
}

func since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Format(clock)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// last is what the node was last told of an object by a time.
func (t *Told) last(id ID, by time.Time) (last entry, ok bool) {
	for _, e := range t.entries[id] {
		if !e.at.After(by) {
			last, ok = e, true
		}
	}
	return last, ok
}

// text is a version in a few words.
func (v version) text(labels []string) string {
	switch {
	case v.service != nil:
		policy := "Cluster"
		if v.service.InternalLocal {
			policy = "Local"
		}
		return fmt.Sprintf("keys %s, %s%s", or(topology.ParseKeys(v.service.TopologyKeys).String(), "none"), policy, besides(v.service))
	case v.slice != nil:
		return "of " + v.slice.Service + " " + endpoints(v.slice.Endpoints)
	case v.node != nil:
		var words []string
		for _, key := range labels {
			words = append(words, key+"="+v.node.Labels[key])
		}
		return strings.Join(words, " ")
	}
	return "absent"
}

// besides is what else a Service has, where that is more than one port.
func besides(s *topology.Service) (text string) {
	for _, p := range s.Ports {
		if len(s.Ports) == 1 && p.Name == "" && p.NodePort == 0 {
			break
		}
		text += fmt.Sprintf(", %s %d/%s", or(p.Name, "port"), p.Port, p.Protocol)
		if p.NodePort != 0 {
			text += fmt.Sprintf(" at %d", p.NodePort)
		}
	}
	if s.Affinity > 0 {
		text += fmt.Sprintf(", affinity %ds", s.Affinity)
	}
	return text
}

func endpoints(list []topology.Endpoint) string {
	var words []string
	for _, e := range list[:min(len(list), explainedEndpoints)] {
		state := "not ready"
		switch {
		case e.Ready:
			state = "ready"
		case e.Serving:
			state = "serving"
		}
		if e.Terminating {
			state += " and terminating"
		}
		words = append(words, fmt.Sprintf("%s on %s %s", e.Addr, e.Node, state))
	}
	if n := len(list) - explainedEndpoints; n > 0 {
		words = append(words, fmt.Sprintf("%d more", n))
	}
	return "[" + strings.Join(words, ", ") + "]"
}
