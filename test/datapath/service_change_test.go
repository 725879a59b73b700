package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// changeFollowed is when all who dial follow a change: five times what a busy machine with race detectors needed.
const changeFollowed = 5 * 1500 * time.Millisecond

// settledFor is how long it is dialled between two changes.
const settledFor = time.Second

// renewedPort is where backends listen besides 8080, and how their names end there.
const (
	renewedPort = 8081
	renewedName = "-new"
)

// changing is a Service that is written in other forms.
type changing struct {
	*fleet
	port, nodePort uint16 // 0: it has none
	there          bool
	targets        map[string]int // ports of backends by their nodes, where they are not 8080
}

func (s *changing) write(t *testing.T) {
	t.Helper()
	defer func() { must(t, w.state.write()) }()
	if w.state.remove(s.name); !s.there {
		return
	}
	s.ends = nil
	w.state.service(s.service) // of no endpoints
	spec, opened := "spec:\n", ""
	if s.nodePort != 0 {
		spec, opened = "spec:\n  type: NodePort\n", fmt.Sprintf(", nodePort: %d", s.nodePort)
	}
	file := "service-" + s.name
	text := w.state.files[file]
	for _, protocol := range []string{"TCP", "UDP"} {
		text = strings.Replace(text, "port: 80, protocol: "+protocol, fmt.Sprintf("port: %d, protocol: %s%s", s.port, protocol, opened), 1)
	}
	text = strings.Replace(text, "spec:\n", spec, 1)
	for _, n := range w.lab.Nodes() {
		for _, ipv6 := range []bool{false, true} {
			slice := sliceOf(s.fleet, s.name, fmt.Sprintf("%s-%s-%v", s.name, n.Name, ipv6), ipv6, on(n.Name, isReady))
			if port, is := s.targets[n.Name]; is {
				slice = strings.ReplaceAll(slice, "port: 8080", fmt.Sprintf("port: %d", port))
			}
			text += slice
		}
	}
	w.state.files[file] = text
}

// wanted is who answers clients, by their nodes; those of no other are meant.
type wanted map[string]string

func inUnitA(names string) wanted { return wanted{"a-1": names, "a-2": names} }

// dialled are the targets of all these clients, at addresses that are each one's.
func (s *changing) dialled(at func(client) []netip.AddrPort, by wanted) (list []target) {
	for _, c := range s.clients() {
		want, is := by[c.node.Name]
		if !is {
			continue
		}
		for _, to := range at(c) {
			for _, network := range []string{"tcp", "udp"} {
				list = append(list, target{from: c, network: network, to: to, want: want})
			}
		}
	}
	return list
}

// frontend is a port of addresses that are a Service's, wherever they are dialled.
func frontend(ips []netip.Addr, port uint16) func(client) []netip.AddrPort {
	return func(client) (list []netip.AddrPort) {
		for _, ip := range ips {
			list = append(list, netip.AddrPortFrom(ip, port))
		}
		return list
	}
}

// step is a change: who answers all the while, before it or after it, and who answers then.
type step struct {
	what        string
	change      func()
	keeps, then []target
}

func (s *changing) steps(t *testing.T, nodePorts bool) []step {
	nextNodePort++
	nodePort, moved := nextNodePort, ownIPs(t)
	usual, otherPort, otherIP := frontend(s.ips, 80), frontend(s.ips, 81), frontend(moved, 81)
	ofNode := func(c client) []netip.AddrPort { return frontend([]netip.Addr{c.node.IP, c.node.IP6}, nodePort)(c) }
	write := func(change func()) func() { return func() { change(); s.write(t) } }
	opened, opens := "a-1 a-2", func(port uint16) func() { return write(func() { s.nodePort = port }) }
	if !nodePorts { // what is served does not tell when that is known
		opened, opens = refused, func(port uint16) func() { return func() { s.nodePort = port; s.write(t); s.unserved(t, port != 0) } }
	}
	all, none, renewed := inUnitA("a-1 a-2"), inUnitA(refused), inUnitA("a-1 a-2"+renewedName)
	a2 := w.state.files["node-a-2"]
	return []step{
		{"it has a node port", opens(nodePort), s.dialled(usual, all), slices.Concat(s.dialled(usual, all), s.dialled(ofNode, inUnitA(opened)))},
		{"it has none any more", opens(0), s.dialled(usual, all), slices.Concat(s.dialled(usual, all), s.dialled(ofNode, none))},
		{"its port is another", write(func() { s.port = 81 }), nil, slices.Concat(s.dialled(otherPort, all), s.dialled(usual, none))},
		{"it is deleted", write(func() { s.there = false }), nil, s.dialled(otherPort, none)},
		{"it is made anew with another address", write(func() { s.there, s.ips = true, moved }), nil, slices.Concat(s.dialled(otherIP, all), s.dialled(otherPort, none))},
		{"a backend's port is another", write(func() { s.targets["a-2"] = renewedPort }), s.dialled(otherIP, inUnitA("a-1 a-2 a-2"+renewedName)), s.dialled(otherIP, renewed)},
		{"a Node is deleted", func() { delete(w.state.files, "node-a-2"); must(t, w.state.write()) }, s.dialled(otherIP, wanted{"a-1": renewed["a-1"]}), s.dialled(otherIP, wanted{"a-1": "a-1", "a-2": refused})},
		{"the Node is made anew", func() { w.state.files["node-a-2"] = a2; must(t, w.state.write()) }, s.dialled(otherIP, wanted{"a-1": renewed["a-1"]}), s.dialled(otherIP, renewed)},
	}
}

// unserved waits until the nodes of unit a know of a node port that Envoy alone does not serve, or of none.
func (s *changing) unserved(t *testing.T, has bool) {
	t.Helper()
	for _, node := range []string{"a-1", "a-2"} {
		wait.Eventually(t, func() error {
			view := inspect(t, named(t, node), "view", "default/"+s.name)
			if contains(view, "node ports are not served") != has {
				return fmt.Errorf("view of %s: it has a node port: %v, want %v:\n%s", node, !has, has, view)
			}
			return nil
		})
	}
}

// A Service that changes while hosts and pods of a unit dial it: nothing leaves the unit, nobody else answers, what a
// change is not about goes on without a failure, and what is new is served soon.
func TestAServiceThatChanges(t *testing.T) {
	t.Run("envoy", func(t *testing.T) { changesWhileDialled(t, "change", false) })
	t.Run("auto", func(t *testing.T) {
		twoPaths(t, named(t, "a-1"))
		twoPaths(t, named(t, "a-2"))
		changesWhileDialled(t, "change-both", true)
	})
}

func changesWhileDialled(t *testing.T, name string, nodePorts bool) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, name, `["unit"]`)
	for node, pod := range f.pods {
		app, err := edge.StartApp(pod.NS, name+"-"+node+renewedName, renewedPort)
		must(t, err)
		t.Cleanup(app.Stop)
	}
	s := &changing{fleet: f, there: true, port: 80, targets: map[string]int{}}
	s.write(t)
	a2 := w.state.files["node-a-2"]
	t.Cleanup(func() { w.state.files["node-a-2"] = a2; must(t, w.state.write()) })
	before := s.dialled(frontend(s.ips, 80), inUnitA("a-1 a-2"))
	_, err := f.followed(before, wait.Patience)
	must(t, err)
	stop := dialling(t, f, "before", before)
	for _, st := range s.steps(t, nodePorts) {
		time.Sleep(settledFor) // it is dialled as it is
		meanwhile := dialling(t, f, "while "+st.what, whileChanging(st.keeps, before, st.then))
		stop()
		st.change()
		took, err := f.followed(st.then, changeFollowed)
		if err != nil {
			t.Fatalf("%s: %v", st.what, err)
		}
		t.Logf("%s: followed after %s", st.what, took)
		stop = dialling(t, f, "after "+st.what, st.then)
		meanwhile()
		before = st.then
	}
	time.Sleep(settledFor)
	stop()
}

// whileChanging are these targets with who keeps answering there; at the others that changes. What Envoy has asked
// for by UDP of an endpoint that leaves is lost.
func whileChanging(keeps []target, changing ...[]target) (list []target) {
	key := func(d target) string { return d.from.name + d.network + d.to.String() }
	has := map[string]bool{}
	for _, d := range keeps {
		has[key(d)], d.again = true, true
		list = append(list, d)
	}
	for _, d := range slices.Concat(changing...) {
		if !has[key(d)] {
			has[key(d)], d.want = true, ""
			list = append(list, d)
		}
	}
	return list
}
