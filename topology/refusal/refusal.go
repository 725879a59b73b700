// Package refusal says why nobody answers at an address of Services, as a node
// sees it, and what helps: the Service, the endpoint that came furthest through
// the rules of topology, the rule that left it out, and the cure. It is pure.
package refusal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// Cause is why a packet to an address of Services goes nowhere.
type Cause struct {
	Service  string `json:"service,omitempty"`
	Tiers    string `json:"tiers,omitempty"`    // of its keys, in order, none of which has a usable endpoint
	Endpoint string `json:"endpoint,omitempty"` // that came furthest
	Node     string `json:"node,omitempty"`     // of the endpoint
	Rule     string `json:"rule,omitempty"`     // that left it out
	Why      string `json:"why"`
	Cure     string `json:"cure"`
}

// String is the cause in one line, without the cure.
func (c *Cause) String() string {
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

// NoEndpoint is why of a Service whose slices have nobody for a port.
const NoEndpoint = "has no endpoint at this port"

// Of finds the cause for an address that is in a range of Services and that the
// node of a view cannot reach; the view is of the snapshot, by the options.
func Of(snap *topology.Snapshot, view *topology.View, opts topology.Options, to topology.Frontend) *Cause {
	for _, s := range view.Sorted() {
		if !slices.Contains(s.ClusterIPs, to.Addr) {
			continue
		}
		i := slices.IndexFunc(s.Frontends, func(f topology.FrontendView) bool { return f.Frontend == to })
		if i < 0 {
			return &Cause{
				Service: s.Key.String(),
				Why:     fmt.Sprintf("has no port %d/%s", to.Port, to.Protocol),
				Cure:    "dial one that it has (" + ports(s) + "), or add it to spec.ports",
			}
		}
		if s.Frontends[i].Path == topology.PathNone {
			return &Cause{
				Service: s.Key.String(),
				Why:     fmt.Sprintf("%s is not served, whatever endpoints there are: of %s nothing is", to, to.Protocol),
				Cure:    "use TCP, or run the agent with --datapath auto, where the kernel serves it",
			}
		}
		out := topology.Explain(snap, view, opts, s.Key)[to]
		if len(out) == 0 {
			return Nobody(s.Key, s.Frontends[i].PortName)
		}
		return emptied(s, to, out, tiers(s, view.Viewpoint.Values))
	}
	return &Cause{
		Why:  to.Addr.String() + " is in a range of Services, and of no Service of this state that is served here",
		Cure: "check the address: the Service may be gone, made again with another one, or left to another proxy by the label service.kubernetes.io/service-proxy-name, which then has to translate it before it is guarded",
	}
}

// Nobody is the cause where a port of a Service, by its name, has no endpoint anywhere.
func Nobody(service topology.ObjectKey, port string) *Cause {
	return &Cause{
		Service: service.String(),
		Why:     NoEndpoint,
		Cure: fmt.Sprintf("see that its selector matches pods, and that they have the port %s: kubectl get endpointslices -n %s -l kubernetes.io/service-name=%s",
			cmp.Or(port, "of the Service"), service.Namespace, service.Name),
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

// emptied says why a frontend has no tier, by all that was left out of it.
func emptied(s *topology.ServiceView, to topology.Frontend, out []topology.LeftOut, tiers string) *Cause {
	furthest, same, before := split(out)
	c := &Cause{
		Service: s.Key.String(), Tiers: tiers,
		Endpoint: furthest.Addr.String(), Node: furthest.Node, Rule: furthest.Rule,
	}
	c.Why = fmt.Sprintf("%s has no endpoint that this node may use: of %d, ", to, len(out))
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
	c.Cure = cure(furthest, s) + "; gridmesh view " + c.Service + " shows every endpoint"
	return c
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

// tiers are a Service's keys, each with the node's value.
func tiers(s *topology.ServiceView, values map[string]string) string {
	var list []string
	for i, key := range s.Keys.List {
		value := "(no label here)"
		if v, ok := values[key]; ok {
			value = v
		}
		list = append(list, fmt.Sprintf("%d %s=%s", i+1, key, value))
	}
	if s.Keys.Any {
		list = append(list, fmt.Sprintf("%d %s", len(list)+1, topology.AnyNode))
	}
	return strings.Join(list, ", ")
}

// cure is what helps an endpoint that was left out.
func cure(l topology.LeftOut, s *topology.ServiceView) string {
	if text := s.KeyOfNobody(); text != "" && l.Rule == "topologyKeys" {
		return text
	}
	if i := slices.IndexFunc(s.Problems, ofAnnotation); i >= 0 && s.Keys.Mode == topology.Malformed {
		return "mend " + s.Problems[i].Field + ": " + s.Problems[i].Text
	}
	return strings.NewReplacer("NAMESPACE", s.Key.Namespace, "ADDRESS", l.Addr.Addr().String()).Replace(l.Cure)
}

func ofAnnotation(p topology.Problem) bool {
	return strings.HasPrefix(p.Field, "metadata.annotations[")
}
