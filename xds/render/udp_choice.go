package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

const (
	// maxUDPProblems bounds the Services that are named one by one.
	maxUDPProblems = 50
	// maxServiceUDP is how many UDP listeners of each family a Service has.
	maxServiceUDP = 16
)

// udpChooser chooses the UDP frontends that have a listener. Each is a socket
// in the node's namespace and a quarter of a MiB of Envoy's memory, so only
// Services with topologyKeys have one, and the cluster's DNS. A listener that
// was opened stays for as long as its frontend may have one, with endpoints or
// without: one that comes back while the one before it drains would share its
// packets with it.
type udpChooser struct {
	max   int
	want  map[string]udpFrontend // cluster name -> what may have a listener
	deny  map[string]udpDenial   // cluster name -> why it has none
	open  map[string]string      // cluster names of the listeners -> namespace
	had   map[string]bool        // cluster names that had one in a run before
	drain udpDrains              // listeners that were closed
	over  []udpOver              // who has none because of others
	said  []topology.Problem
	noted []topology.Problem // what is no problem: notices
	stale bool

	noIPv6 bool // nothing can be bound to an address of IPv6
}

type udpFrontend struct {
	topology.Frontend
	service topology.ObjectKey
	always  bool // whatever max is
}

type udpDenial struct {
	service topology.ObjectKey
	text    string
	notice  bool
}

// Refusal is why a UDP frontend has no listener, and what helps.
type Refusal struct {
	Why, Cure string
	// Notice: nobody made a mistake, and a cluster may be full of them. Else it is a
	// Problem, for whoever says it.
	Notice bool
}

func newUDPChooser(most int) *udpChooser {
	return &udpChooser{max: most, want: map[string]udpFrontend{}, deny: map[string]udpDenial{}, open: map[string]string{}, had: map[string]bool{}, drain: udpDrains{namespaces: map[string]int{}}, stale: true}
}

// forget drops a frontend; enter may bring it back before choose is called.
func (c *udpChooser) forget(name string) {
	delete(c.want, name)
	delete(c.deny, name)
	c.stale = true
}

func (c *udpChooser) enter(name string, s *topology.ServiceView, f *topology.FrontendView) {
	if len(f.Tiers) == 0 && !c.isOpen(name) && !c.had[name] {
		return // refused like everything without endpoints
	}
	c.stale = true
	if r := RefusedUDP(s, f); r != nil {
		c.deny[name] = udpDenial{s.Key, fmt.Sprintf("%s is refused: %s; %s", f.Frontend, r.Why, r.Cure), r.Notice}
		return
	}
	c.want[name] = udpFrontend{f.Frontend, s.Key, IsAlways(s.Key)}
}

// RefusedUDP says why a UDP frontend of Envoy's path may have no listener; nil where it
// may, as far as there are any left.
func RefusedUDP(s *topology.ServiceView, f *topology.FrontendView) *Refusal {
	owner := nodePorts[f.Port]
	switch {
	case IsAlways(s.Key):
	case s.Keys.Mode == topology.NoKeys:
		return &Refusal{"UDP is served for Services with topologyKeys only", `give it topologyKeys, '["*"]' for every endpoint, or run the agent with --datapath auto, or use TCP`, true}
	case owner != "":
		return &Refusal{Why: fmt.Sprintf("the port is the node's own (%s), which a listener there would keep from the node", owner), Cure: "give the Service another port"}
	}
	return nil
}

// choose returns the frontends whose listeners came and went since it was last
// called, by cluster name.
func (c *udpChooser) choose() (opened []udpFrontend, closed []string) {
	if !c.stale {
		return nil, nil
	}
	c.stale = false
	for name, namespace := range c.open {
		if f, wanted := c.want[name]; !wanted || !c.binds(f) {
			delete(c.open, name)
			c.drain.add(namespace)
			closed = append(closed, name)
		}
	}
	var before, waiting []udpFrontend
	shares := newUDPShares(c.max, &c.drain)
	for name, f := range c.want {
		switch {
		case !c.binds(f):
		case f.always && !c.isOpen(name):
			opened = append(opened, f)
		case !f.always && c.isOpen(name):
			shares.take(f)
		case !f.always && c.had[name]:
			before = append(before, f)
		case !f.always:
			waiting = append(waiting, f)
		}
	}
	// A restart takes nobody's listener for the sake of another.
	opened = append(opened, shares.deal(before)...)
	opened = append(opened, shares.deal(waiting)...)
	for _, f := range opened {
		c.open[ClusterName(f.Frontend)] = f.service.Namespace
	}
	c.over = shares.over[:]
	c.said, c.noted = c.denials(false), c.denials(true)
	c.said = append(c.said, c.overs()...)
	return opened, closed
}

// pass is told the time, and reports whether choose may choose differently for it.
func (c *udpChooser) pass(now time.Time) bool {
	room := c.drain.pass(now)
	c.stale = c.stale || room
	return room
}

func (c *udpChooser) isOpen(name string) bool {
	_, open := c.open[name]
	return open
}

// binds reports whether the node has the frontend's IP version.
func (c *udpChooser) binds(f udpFrontend) bool { return !c.noIPv6 || !f.Addr.Is6() }

// denials says of every Service what is refused of its UDP, and why: what is a notice,
// or what is a problem.
func (c *udpChooser) denials(notices bool) (list []topology.Problem) {
	const field = "spec.ports"
	denied := map[topology.ObjectKey][]string{}
	for _, d := range c.deny {
		if d.notice == notices {
			denied[d.service] = append(denied[d.service], d.text)
		}
	}
	services := slices.SortedFunc(maps.Keys(denied), topology.ObjectKey.Compare)
	more := max(0, len(services)-maxUDPProblems)
	for _, key := range services[:len(services)-more] {
		texts := slices.SortedFunc(slices.Values(denied[key]), strings.Compare)
		text := texts[0]
		if len(texts) > 1 {
			text += fmt.Sprintf(" (and %d more of its UDP ports)", len(texts)-1)
		}
		list = append(list, topology.Problem{Object: "service " + key.String(), Field: field, Text: text})
	}
	if more > 0 {
		list = append(list, topology.Problem{Object: "node", Text: fmt.Sprintf("UDP of %d Services more is refused for the same reasons", more)})
	}
	return list
}

// overs says what is refused because others have what there is.
func (c *udpChooser) overs() (list []topology.Problem) {
	for _, over := range c.over {
		if over.ports == 0 {
			continue
		}
		named := make([]string, 0, 5)
		for _, key := range over.services[:min(len(over.services), cap(named))] {
			named = append(named, key.String())
		}
		list = append(list, topology.Problem{Object: "node", Text: fmt.Sprintf(
			"%d UDP ports are refused, for %s: of service %s%s; %s",
			over.ports, over.why, strings.Join(named, ", "), map[bool]string{true: " and others"}[len(over.services) > len(named)], over.cure)})
	}
	return list
}
