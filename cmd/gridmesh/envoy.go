package main

import (
	"context"
	"fmt"

	"github.com/gridmesh/gridmesh/capture/rules"
)

// envoyStatus is what an agent's status says of its Envoy.
type envoyStatus struct {
	Envoys []struct { // nil: the agent does not say
		Over int `json:"over"`
	} `json:"envoys"`
	Absent bool `json:"envoyAbsent"`
	Nacks  []struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Service string `json:"service"`
		Reason  string `json:"reason"`
	} `json:"nacks"`
	MoreNacks int `json:"moreNacks"`
	Load      *struct {
		Newly   uint64 `json:"newlyRefused"`
		Heap    uint64 `json:"heapPercent"`
		Stopped bool   `json:"stopped"`
	} `json:"load"`
}

// noteEnvoy says what keeps a packet that Envoy is given from its endpoints, as
// far as the agent knows: the rules alone bring it nowhere. Another node's Envoy
// is not the agent's.
func (in *input) noteEnvoy(ctx context.Context, w *walk) {
	agent := in.agent(ctx)
	if w.Verdict != string(rules.ToEnvoy) || agent.Node != in.node {
		return
	}
	for _, text := range agent.faults(w.Cluster, w.service) {
		in.note("%s", printable(text, ""))
	}
}

// faults is what is wrong with Envoy that matters to a cluster, of a Service.
func (s *envoyStatus) faults(cluster, service string) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch {
	case s.Absent:
		add("Envoy takes no connections: the kernel serves the first tier of what it served")
		return list
	case s.Envoys == nil:
		return nil
	case len(s.Envoys) == 0:
		add("no Envoy is connected to the agent: the connection is refused unless one still runs with what it holds")
		return list
	}
	for _, e := range s.Envoys {
		if e.Over > 0 {
			add("Envoy asked for %d clusters more than it gets: a connection to what it never used before ends", e.Over)
		}
	}
	switch l := s.Load; {
	case l == nil:
	case l.Stopped:
		add("Envoy takes no more connections: its memory is full (%d %%)", l.Heap)
	case l.Newly > 0:
		add("Envoy takes no more connections: it has as many as --envoy-heap-limit leaves room for")
	}
	for _, n := range s.Nacks {
		if n.Name == cluster || n.Service == service {
			add("Envoy refuses %s %s, and goes on with what it had of it: %s", n.Type, n.Name, n.Reason)
		}
	}
	if s.MoreNacks > 0 {
		add("Envoy refuses %d resources more than the agent names", s.MoreNacks)
	}
	return list
}
