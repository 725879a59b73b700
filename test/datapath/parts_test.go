package datapath

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/xds/admin"
)

const (
	wideServices  = 9
	wideEndpoints = 5100  // of each: more than is ever preloaded of one
	onDemandMost  = 40000 // endpoints of all that Envoy asked for
	onDemandMiB   = 210   // that they may take of Envoy, with their clusters
)

// wide are Services whose keys find two pods in unit a, and with "*" thousands
// of addresses in b at which nobody is.
func wide(pods ...backend) (list []service, state *manifests) {
	state = newManifests(w.state.dir + "-wide")
	for name, text := range w.state.files {
		if strings.HasPrefix(name, "node-") {
			state.files[name] = text
		}
	}
	ends := pods
	for i := len(pods); i < wideEndpoints; i++ {
		ends = append(ends, backend{netip.AddrFrom4([4]byte{10, 77, byte(i >> 8), byte(i)}), "b-1"})
	}
	for i := range wideServices {
		s := service{name: fmt.Sprintf("wide%d", i), keys: `["unit","*"]`, ips: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 7, byte(i)})}, ends: ends}
		state.files["service-"+s.name] = wideManifest(s)
		list = append(list, s)
	}
	return list, state
}

// wideManifest is a Service of TCP alone, in slices as large as Kubernetes has
// them.
func wideManifest(s service) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, annotations: {topologyKeys: '%s'}}\n", s.name, s.keys)
	fmt.Fprintf(&b, "spec: {clusterIP: %[1]s, clusterIPs: [%[1]s], ports: [{port: 80}]}\n", s.ips[0])
	for i, e := range s.ends {
		if i%1000 == 0 {
			fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %[1]s-%[2]d, labels: {kubernetes.io/service-name: %[1]s}}\n", s.name, i)
			b.WriteString("addressType: IPv4\nports: [{port: 8080}]\nendpoints:\n")
		}
		fmt.Fprintf(&b, "- {addresses: [%s], nodeName: %s}\n", e.ip, e.node)
	}
	return b.String()
}

// heldEndpoints says how many endpoints each cluster of those Services has in Envoy.
func heldEndpoints(t *testing.T, e *edge.Node) (of map[string]int, all int) {
	t.Helper()
	list, err := admin.New(e.Dir + "/admin.sock").Clusters(t.Context())
	must(t, err)
	of = map[string]int{}
	for _, c := range list {
		of[c.Name] = len(c.Endpoints)
		all += len(c.Endpoints)
	}
	return of, all
}

// Services that an Envoy asked for by name, and that have more endpoints
// together than it may hold, are all served: each has a part, what is near is in
// it, and connections from before go on.
func TestMoreEndpointsThanEnvoyMayHold(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "wide", `["unit"]`)
	list, state := wide(backend{f.pods["a-1"].IP, "a-1"}, backend{f.pods["a-2"].IP, "a-2"})
	must(t, state.write())
	e, from := named(t, "a-1"), f.pods["a-1"].NS
	kept := e.Flags
	t.Cleanup(func() { anew(t, e, kept...) })
	anew(t, e, "--manifests", state.dir, "--service-cidr", netlab.ServiceCIDR4.String()+","+netlab.ServiceCIDR6.String(), "--datapath", "envoy")
	before, err := e.Envoy.ResidentMiB()
	must(t, err)

	ask := func(s service) error {
		a, err := edge.Ask(from, "tcp", s.at(0), answers)
		if err == nil && !strings.HasPrefix(a.Name, "wide-a-") {
			err = fmt.Errorf("answered by %s", a.Name)
		}
		return wrap(s.name, err)
	}
	open := askAgain(t, from, list[0])
	for i, s := range list {
		start := time.Now()
		must(t, ask(s))
		t.Logf("%s: answered after %s", s.name, time.Since(start).Round(time.Millisecond))
		whole := (i+1)*wideEndpoints <= onDemandMost
		wait.Within(t, answers, func() error {
			if part := partOf(t, e); (part == 0) != whole {
				return fmt.Errorf("with %d Services asked for, a part is %d", i+1, part)
			}
			return nil
		})
	}
	after, err := e.Envoy.ResidentMiB()
	must(t, err)
	t.Logf("Envoy has %d MiB, and had %d", after, before)
	if after-before > onDemandMiB {
		t.Errorf("Envoy has %d MiB more than before, may have %d", after-before, onDemandMiB)
	}

	part := partOf(t, e)
	wait.Within(t, answers, func() error { // and it has what was sent
		of, all := heldEndpoints(t, e)
		for _, s := range list {
			if n := of[s.at(0).String()]; n == 0 || n != part {
				return fmt.Errorf("Envoy has %d endpoints of %s, want %d", n, s.name, part)
			}
		}
		if all > onDemandMost {
			return fmt.Errorf("Envoy has %d endpoints", all)
		}
		return nil
	})
	must(t, open())
	for _, s := range list {
		must(t, ask(s))
	}
}

// askAgain opens a connection, and returns what asks over it.
func askAgain(t *testing.T, from *netlab.NS, s service) func() error {
	t.Helper()
	conn, err := open(from, &fleet{service: s})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return func() error {
		must(t, conn.SetDeadline(time.Now().Add(answers)))
		if _, err := fmt.Fprintln(conn, "who"); err != nil {
			return err
		}
		_, err := bufio.NewReader(conn).ReadString('\n')
		return wrap("the connection from before", err)
	}
}

// partOf is how many endpoints of a cluster an agent gives its Envoy at most;
// 0 of all.
func partOf(t *testing.T, e *edge.Node) int {
	t.Helper()
	out, err := e.Run("status", "-o", "json")
	must(t, err)
	var r struct {
		Envoys []struct{ Part int }
	}
	must(t, json.Unmarshal(out, &r))
	if len(r.Envoys) != 1 {
		t.Fatalf("%d Envoys", len(r.Envoys))
	}
	return r.Envoys[0].Part
}
