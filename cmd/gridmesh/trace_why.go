package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// cause is why a packet to an address of Services goes nowhere.
type cause struct {
	Service  string `json:"service,omitempty"`
	Tiers    string `json:"tiers,omitempty"`    // of its keys, in order, none of which has a usable endpoint
	Endpoint string `json:"endpoint,omitempty"` // that came furthest
	Node     string `json:"node,omitempty"`     // of the endpoint
	Rule     string `json:"rule,omitempty"`     // that left it out
	Why      string `json:"why"`
	Cure     string `json:"cure"`
}

// String is the cause as a step of the walk.
func (c *cause) String() string {
	text := c.Why
	if c.Service != "" {
		text = "service " + c.Service + ": " + text
	}
	if c.Tiers != "" {
		text += "; tiers, none with a usable endpoint: " + c.Tiers
	}
	if c.Rule != "" {
		text += " (rule: " + c.Rule + ")"
	}
	return text
}

// because finds the cause of a refusal, or of a packet that is dropped; nil for
// any other end.
func (w *world) because(fate rules.Fate, to topology.Frontend) *cause {
	if fate != rules.Refused && fate != rules.Dropped {
		return nil
	}
	for _, s := range w.view.Sorted() {
		if !slices.Contains(s.ClusterIPs, to.Addr) {
			continue
		}
		c := &cause{Service: s.Key.String()}
		i := slices.IndexFunc(s.Frontends, func(f topology.FrontendView) bool { return f.Frontend == to })
		if i < 0 {
			c.Why = fmt.Sprintf("has no port %d/%s", to.Port, to.Protocol)
			c.Cure = "dial one that it has (" + ports(s) + "), or add it to spec.ports"
			return c
		}
		w.emptied(c, s, &s.Frontends[i])
		return c
	}
	return &cause{
		Why:  to.Addr.String() + " is in a range of Services, and no Service of this state has it",
		Cure: "check the address: the Service may be gone, or made again with another one",
	}
}

func ports(s *topology.ServiceView) string {
	var list []string
	for _, f := range s.Frontends {
		if text := fmt.Sprintf("%d/%s", f.Port, f.Protocol); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}

// emptied says why a frontend has no tier.
func (w *world) emptied(c *cause, s *topology.ServiceView, f *topology.FrontendView) {
	out := topology.Explain(w.snap, w.view, w.opts, s.Key)[f.Frontend]
	if len(out) == 0 {
		c.Why = "has no endpoint at this port"
		c.Cure = fmt.Sprintf("see that its selector matches pods, and that they have the port %s: kubectl get endpointslices -n %s -l kubernetes.io/service-name=%s", cmp.Or(f.PortName, "of the Service"), s.Key.Namespace, s.Key.Name)
		return
	}
	furthest, same, before := split(out)
	c.Rule, c.Endpoint, c.Node = furthest.Rule, furthest.Addr.String(), furthest.Node
	c.Why = fmt.Sprintf("%s has no endpoint that this node may use: of %d, ", f.Frontend, len(out))
	if len(before) > 0 {
		c.Why += "the one that came furthest, "
	}
	c.Why += c.Endpoint
	if c.Node != "" {
		c.Why += " on " + c.Node
	}
	c.Why += ", is left out (" + furthest.Reason + ")"
	if same > 0 {
		c.Why += fmt.Sprintf(", as are %d more", same)
	}
	if n := len(before); n > 0 {
		c.Why += fmt.Sprintf(", and %d before by %s (%s)", n, before[n-1].Rule, before[n-1].Reason)
	}
	c.Tiers = w.tiers(s)
	c.Cure = remedy(furthest, s) + "; gridmesh view " + c.Service + " shows every endpoint"
}

// split returns the endpoint that came furthest through the rules, how many the
// same rule left out besides, and those that earlier rules did. Rules are applied
// in order and tiers are sorted, so it is the last rule's first. Other units'
// pods, however many, do not hide that the own one is not ready.
func split(out []topology.LeftOut) (furthest topology.LeftOut, same int, before []topology.LeftOut) {
	last := out[len(out)-1].Rule
	i := slices.IndexFunc(out, func(l topology.LeftOut) bool { return l.Rule == last })
	return out[i], len(out) - i - 1, out[:i]
}

// tiers are a Service's keys, each with this node's value.
func (w *world) tiers(s *topology.ServiceView) string {
	var list []string
	for i, key := range s.Keys.List {
		value := "(no label here)"
		if v, ok := w.view.Viewpoint.Values[key]; ok {
			value = v
		}
		list = append(list, fmt.Sprintf("%d %s=%s", i+1, key, value))
	}
	if s.Keys.Any {
		list = append(list, fmt.Sprintf("%d %s", len(list)+1, topology.AnyNode))
	}
	return strings.Join(list, ", ")
}

// remedy is what helps an endpoint that was left out.
func remedy(l topology.LeftOut, s *topology.ServiceView) string {
	switch l.Rule {
	case "topologyKeys":
		return fmt.Sprintf("run a pod of it in this node's unit, or correct the nodes' labels; if other units are to answer at all, end topologyKeys with %q: then units no longer keep to themselves whenever their own pods are away", topology.AnyNode)
	case "malformed keys":
		return "mend the annotation topologyKeys: until then the Service is closed to each node itself"
	case "internalTrafficPolicy":
		return "run a pod of it on this node, or set spec.internalTrafficPolicy: Cluster"
	case "terminating":
		return fmt.Sprintf("see why it is not ready: its pod is the one of kubectl get pods -n %s -o wide --field-selector status.podIP=%s, and kubectl describe pod tells its cause", s.Key.Namespace, l.Addr.Addr())
	}
	return "see its endpoints"
}
