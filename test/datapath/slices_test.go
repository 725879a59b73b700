package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// What endpoints say of themselves.
const (
	isReady  = "conditions: {ready: true, serving: true, terminating: false}"
	notReady = "conditions: {ready: false, serving: false, terminating: false}"
	ending   = "conditions: {ready: false, serving: true, terminating: true}"
	ended    = "conditions: {ready: false, serving: false, terminating: true}"
)

// Who answers where nobody does.
const (
	refused = "refused"
	dropped = "dropped"
)

// entry is an endpoint of a slice: the pod of a node, and what is said of it.
type entry struct{ pod, says string }

// on is an endpoint on the node where it is.
func on(node string, says ...string) entry {
	return entry{node, "nodeName: " + node + ", " + strings.Join(says, ", ")}
}

func zone(name string) string { return "hints: {forZones: [{name: " + name + "}]}" }
func node(name string) string { return "hints: {forNodes: [{name: " + name + "}]}" }

// sliceOf writes a slice of a Service, with its entries' addresses of one family.
func sliceOf(f *fleet, service, name string, ipv6 bool, list ...entry) string {
	var b strings.Builder
	family := map[bool]string{false: "IPv4", true: "IPv6"}[ipv6]
	fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s, labels: {kubernetes.io/service-name: %s}}\n", name, service)
	fmt.Fprintf(&b, "addressType: %s\nports: [{name: tcp, port: 8080, protocol: TCP}, {name: udp, port: 8080, protocol: UDP}]\nendpoints:\n", family)
	for _, e := range list {
		ip := f.pods[e.pod].IP
		if ipv6 {
			ip = f.pods[e.pod].IP6
		}
		fmt.Fprintf(&b, "- {addresses: [%q], %s}\n", ip, e.says)
	}
	return b.String()
}

// publish makes a Service of these slices and waits until the agents of the given
// nodes follow it: by another one, of each node's own pod, that comes with it and answers,
// by TCP and by UDP, which Envoy has listeners for that come one by one.
func publish(t *testing.T, f *fleet, s service, policy, slices string, nodes ...string) service {
	t.Helper()
	there := service{name: s.name + "-there", keys: `["unit"]`, ends: f.ends}
	for _, of := range []*service{&s, &there} {
		of.ips = ownIPs(t)
		w.state.service(*of)
	}
	file := "service-" + s.name
	if policy != "" {
		w.state.files[file] = strings.Replace(w.state.files[file], "spec:\n", "spec:\n  internalTrafficPolicy: "+policy+"\n", 1)
	}
	w.state.files[file] += slices + w.state.files["service-"+there.name] // one file is one view
	w.state.remove(there.name)
	must(t, w.state.write())
	t.Cleanup(func() { w.state.remove(s.name); must(t, w.state.write()) })
	for _, name := range nodes {
		for ip := range there.ips {
			answered(t, f.pods[name].NS, there.at(ip), "tcp", "udp")
		}
	}
	return s
}

// answered waits until a Service answers by these networks.
func answered(t *testing.T, from *netlab.NS, to netip.AddrPort, networks ...string) {
	t.Helper()
	for _, network := range networks {
		wait.Eventually(t, func() error {
			_, err := edge.Ask(from, network, to, time.Second)
			return wrap(fmt.Sprint(from.Name, " to ", to, " by ", network), err)
		})
	}
}

// The slices, and who answers a pod on a-1 (routed, unit and zone a) and one on b-2 (bridged, b).
var sliceCases = []struct {
	what, keys, policy string
	list               []entry
	want               [2]string // pods by their nodes
	kernel             [2]string // where the kernel leads elsewhere
}{
	{what: "zone hints", list: []entry{on("a-1", isReady, zone("a")), on("a-2", isReady, zone("a")), on("b-1", isReady, zone("b")), on("b-2", isReady, zone("b"))}, want: [2]string{"a-1 a-2", "b-1 b-2"}},
	{what: "zone hints, one lacks its", list: []entry{on("a-1", isReady, zone("a")), on("b-1", isReady), on("b-2", isReady, zone("b"))}, want: [2]string{"a-1 b-1 b-2", "a-1 b-1 b-2"}},
	{what: "node hints", list: []entry{on("a-1", isReady, node("a-1")), on("a-2", isReady, node("b-2")), on("b-2", isReady, node("b-1"))}, want: [2]string{"a-1", "a-2"}},
	{what: "not ready", list: []entry{on("a-1", notReady), on("a-2", isReady), on("b-2", isReady)}, want: [2]string{"a-2 b-2", "a-2 b-2"}},
	{what: "none ready", list: []entry{on("a-1", notReady), on("b-2", ended)}, want: [2]string{refused, refused}},
	{what: "one ends", list: []entry{on("a-1", ending), on("b-2", ending), on("b-1", isReady)}, want: [2]string{"b-1", "b-1"}},
	{what: "all end", list: []entry{on("a-1", ending), on("b-1", ended), on("b-2", notReady)}, want: [2]string{"a-1", "a-1"}},
	{what: "on no node, and on an unknown one", list: []entry{{"a-1", isReady}, {"a-2", "nodeName: nobody, " + isReady}, on("b-1", isReady)}, want: [2]string{"a-1 a-2 b-1", "a-1 a-2 b-1"}},
	{what: "Local", policy: "Local", list: []entry{on("a-1", isReady), on("a-2", isReady)}, want: [2]string{"a-1", dropped}},
	{what: "Local, the one here ends", policy: "Local", list: []entry{on("a-1", ending), on("a-2", isReady)}, want: [2]string{"a-1", dropped}},
	{what: "Local, none anywhere", policy: "Local", list: []entry{on("a-1", notReady)}, want: [2]string{refused, refused}},
	{what: "keys, and hints", keys: `["unit"]`, list: []entry{on("a-1", isReady, zone("a")), on("a-2", isReady, zone("b")), on("b-1", isReady, zone("a")), on("b-2", isReady, zone("b"))}, want: [2]string{"a-1 a-2", "b-1 b-2"}},
	{what: "keys, not ready", keys: `["unit"]`, list: []entry{on("a-1", notReady), on("a-2", isReady), on("b-2", notReady)}, want: [2]string{"a-2", refused}},
	{what: "keys, none ready here", keys: `["unit","*"]`, list: []entry{on("a-1", notReady), on("a-2", ended), on("b-1", isReady)}, want: [2]string{"b-1", "b-1"}},
	{what: "keys, one ends", keys: `["unit"]`, list: []entry{on("a-1", ending), on("a-2", isReady), on("b-1", isReady), on("b-2", ending)}, want: [2]string{"a-2", "b-1"}},
	{what: "keys, all of a unit end", keys: `["unit"]`, list: []entry{on("a-1", ending), on("a-2", notReady), on("b-1", isReady)}, want: [2]string{"a-1", "b-1"}},
	{what: "keys, all of a tier end", keys: `["unit","*"]`, list: []entry{on("a-1", ending), on("a-2", notReady), on("b-1", isReady)}, want: [2]string{"a-1", "b-1"}, kernel: [2]string{"b-1", "b-1"}},
	{what: "keys, on no node, and on an unknown one", keys: `["unit"]`, list: []entry{{"a-1", isReady}, {"a-2", "nodeName: nobody, " + isReady}, on("b-1", isReady)}, want: [2]string{refused, "b-1"}},
	{what: "keys, on no node, and any will do", keys: `["unit","*"]`, list: []entry{{"a-1", isReady}, {"a-2", "nodeName: nobody, " + isReady}, on("b-1", isReady)}, want: [2]string{"a-1 a-2 b-1", "b-1"}},
	{what: "keys, Local", keys: `["unit"]`, policy: "Local", list: []entry{on("a-1", isReady), on("a-2", isReady), on("b-1", isReady)}, want: [2]string{"a-1", dropped}},
}

// What a slice says of an endpoint decides who answers, by Envoy.
func TestSlicesByEnvoy(t *testing.T) { answersBySlices(t, false) }

// And by the kernel, which takes the first tier that has a ready endpoint.
func TestSlicesByTheKernel(t *testing.T) {
	for _, name := range []string{"a-1", "b-2"} {
		e := named(t, name)
		usual := e.Flags
		restart(t, e, append(slices.Clone(usual), "--datapath", "kernel"))
		t.Cleanup(func() { restart(t, e, usual) })
	}
	answersBySlices(t, true)
}

func answersBySlices(t *testing.T, kernel bool) {
	leaks.None(t, w.lab, leaks.Services)
	f := deploy(t, "slices", "")
	inZones(t)
	clients := [2]string{"a-1", "b-2"}
	for i, tc := range sliceCases {
		t.Run(tc.what, func(t *testing.T) {
			s := service{name: fmt.Sprintf("slices-%d", i), keys: tc.keys}
			s = publish(t, f, s, tc.policy, sliceOf(f, s.name, s.name, false, tc.list...)+sliceOf(f, s.name, s.name+"-6", true, tc.list...), clients[:]...)
			networks := []string{"tcp"}
			if kernel || tc.keys != "" { // Envoy has UDP of Services with keys alone
				networks = append(networks, "udp")
			}
			for c, from := range clients {
				want := tc.want[c]
				if kernel && tc.kernel[c] != "" {
					want = tc.kernel[c]
				}
				for ip := range s.ips {
					for _, network := range networks {
						if err := answeredBy(f, from, network, s.at(ip), want); err != nil {
							t.Errorf("%s from a pod on %s to %s: %v", network, from, s.at(ip), err)
						}
					}
				}
			}
		})
	}
}

// inZones gives each node the zone of its unit, until the end of the test.
func inZones(t *testing.T) {
	t.Helper()
	label := func(zones bool) {
		for _, n := range w.lab.Nodes() {
			labels := map[string]string{"unit": n.Unit.Name, "kubernetes.io/hostname": n.Name}
			if zones {
				labels["topology.kubernetes.io/zone"] = n.Unit.Name
			}
			w.state.node(n.Name, labels)
		}
		must(t, w.state.write())
	}
	label(true)
	t.Cleanup(func() { label(false) })
}

// answeredBy asks from a node's pod until each of these pods has answered, and
// nobody else.
func answeredBy(f *fleet, from, network string, to netip.AddrPort, want string) error {
	ask := func(timeout time.Duration) (string, error) {
		a, err := edge.Ask(f.pods[from].NS, network, to, timeout)
		return strings.TrimPrefix(a.Name, f.name+"-"), err
	}
	if want == refused || want == dropped {
		return unanswered(ask, want)
	}
	list, seen, start := strings.Fields(want), map[string]bool{}, time.Now()
	for asked := 0; asked < 8*len(list) || len(seen) < len(list); asked++ {
		who, err := ask(answers)
		switch {
		case err != nil:
			return fmt.Errorf("%w, want %s", err, want)
		case !slices.Contains(list, who):
			return fmt.Errorf("answered by %s, want %s", who, want)
		case time.Since(start) > answers: // Envoy may have ejected one for 2 s
			return fmt.Errorf("answered by %v alone %d times, want %s", seen, asked, want)
		}
		seen[who] = true
		if asked >= 8*len(list) {
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// unanswered asks where nobody is to answer: more than once, for the kernel tells a
// client once a second that UDP is refused.
func unanswered(ask func(time.Duration) (string, error), want string) error {
	var err error
	for range 5 {
		var who string
		if who, err = ask(firstPacket); err == nil {
			return fmt.Errorf("answered by %s, want %s", who, want)
		}
		if errors.Is(err, syscall.ECONNREFUSED) || want == dropped {
			break
		}
	}
	if errors.Is(err, syscall.ECONNREFUSED) != (want == refused) {
		return fmt.Errorf("%w, want %s", err, want)
	}
	return nil
}
