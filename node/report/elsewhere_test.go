package report

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// inShop is a Service with one port.
func inShop(name string, keys *string, ip byte) *topology.Service {
	return &topology.Service{
		Key: topology.ObjectKey{Namespace: "shop", Name: name}, TopologyKeys: keys, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, ip})},
		Ports: []topology.ServicePort{{Port: 80, Protocol: topology.TCP}},
	}
}

// ofShop is the slice of such a one, with an endpoint on each node.
func ofShop(service string, ready bool, nodes ...string) *topology.Slice {
	s := &topology.Slice{Key: topology.ObjectKey{Namespace: "shop", Name: service}, Service: service, Ports: []topology.SlicePort{{Port: 80, Protocol: topology.TCP}}}
	for i, n := range nodes {
		s.Endpoints = append(s.Endpoints, topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: n, Ready: ready, Serving: ready})
	}
	return s
}

// A closed Service whose endpoints are in other units alone is told, while it is so: not one that has none anywhere, nor
// one that is open.
func TestElsewhere(t *testing.T) {
	keys := `["site"]`
	b := topology.NewBuilder()
	node := func(name, site string) {
		b.SetNode(&topology.Node{Name: name, Labels: map[string]string{"site": site}})
	}
	node("a-1", "a")
	node("b-1", "b")
	on := func(name string, ready bool, nodes ...string) { b.SetSlice(ofShop(name, ready, nodes...)) }
	b.SetService(inShop("till", &keys, 1))
	b.SetService(inShop("open", nil, 2))
	b.SetService(inShop("empty", &keys, 3))
	local := inShop("local", &keys, 4)
	local.InternalLocal = true // of which the unit has a pod, on another node
	b.SetService(local)
	node("a-2", "a")
	on("local", true, "a-2", "b-1")
	viewer := topology.NewViewer("a-1", topology.Options{Datapath: topology.DatapathAuto})
	var index Unreached
	for _, tc := range []struct {
		what string
		do   func()
		want string
	}{
		{"no endpoint anywhere", func() { on("open", true, "b-1") }, ""},
		{"in both units", func() { on("till", true, "a-1", "b-1") }, ""},
		{"in the other alone", func() { on("till", true, "b-1") }, "1 closed Service has endpoints in other units alone: shop/till"},
		{"which is not ready", func() { on("till", false, "b-1") }, ""},
		{"the node's label is mistyped", func() { on("till", true, "a-1"); on("empty", true, "a-1"); node("a-1", "aa") }, "1 closed Service has endpoints in other units alone: shop/local"},
		{"and there is another in it", func() { node("a-1", "a"); on("till", true, "b-1"); on("empty", true, "b-1") }, "2 closed Services have endpoints in other units alone: shop/empty, shop/till"},
		{"one is removed", func() { b.DeleteService(topology.ObjectKey{Namespace: "shop", Name: "till"}) }, "1 closed Service has endpoints in other units alone: shop/empty"},
	} {
		tc.do()
		r := &Report{Source: Live}
		index.Fill(r, viewer.See(b.Build()))
		if got := r.elsewhere(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
		}
		if tc.want != "" && !strings.Contains(r.Summary(), "; "+tc.want) {
			t.Errorf("%s: %s", tc.what, r.Summary())
		}
	}
}

// A closed Service of the node's unit that has no ready endpoint in any is told, while it is so, and is no fault of the
// node's; not an open one, nor one of other units' key.
func TestNowhere(t *testing.T) {
	b := topology.NewBuilder()
	node := func(label string) {
		b.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{label: "a"}})
	}
	node("site")
	b.SetNode(&topology.Node{Name: "b-1", Labels: map[string]string{"site": "b", "line": "1"}})
	site, line, anybody := `["site"]`, `["line"]`, `["site", "*"]`
	for i, keys := range []*string{&site, &line, &anybody, nil} {
		b.SetService(inShop(fmt.Sprint("s", i), keys, byte(i)))
	}
	on := func(node string, ready bool) { b.SetSlice(ofShop("s0", ready, node)) }
	viewer := topology.NewViewer("a-1", topology.Options{Datapath: topology.DatapathAuto})
	var index Unreached
	for _, tc := range []struct {
		what string
		do   func()
		want string
	}{
		{"no slice at all", func() {}, "1 closed Service has no ready endpoint in any unit: shop/s0"},
		{"none that is ready", func() { on("b-1", false) }, "1 closed Service has no ready endpoint in any unit: shop/s0"},
		{"one in another unit", func() { on("b-1", true) }, ""},
		{"one here", func() { on("a-1", true) }, ""},
		{"none again", func() { on("a-1", false) }, "1 closed Service has no ready endpoint in any unit: shop/s0"},
		{"the node goes to a unit of another kind", func() { node("line") }, "1 closed Service has no ready endpoint in any unit: shop/s1"},
		{"to none", func() { node("none") }, ""},
		{"and back", func() { node("site") }, "1 closed Service has no ready endpoint in any unit: shop/s0"},
		{"it is removed", func() { b.DeleteService(topology.ObjectKey{Namespace: "shop", Name: "s0"}) }, ""},
	} {
		tc.do()
		r := &Report{Source: Live}
		index.Fill(r, viewer.See(b.Build()))
		if got := r.nowhere(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
		}
		if told := strings.Contains(r.Summary(), "no ready endpoint"); told != (tc.want != "") {
			t.Errorf("%s: %s", tc.what, r.Summary())
		}
		var text strings.Builder
		if err := r.WriteText(&text, time.Now()); err != nil || tc.want != "" && !strings.Contains(text.String(), "\nnowhere     "+tc.want+": ") {
			t.Errorf("%s: %v\n%s", tc.what, err, text.String())
		}
		if list := r.Degraded(time.Now()); slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "endpoint") }) {
			t.Errorf("%s: a fault of the node: %q", tc.what, list)
		}
	}
}

// A closed Service with endpoints here, and a port that none of them has, is told: nobody answers at it, and no endpoint
// is at fault. Not one whose endpoints are elsewhere, nor one that is open.
func TestPortless(t *testing.T) {
	keys := `["site"]`
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"site": "a"}})
	b.SetNode(&topology.Node{Name: "b-1", Labels: map[string]string{"site": "b"}})
	ports := func(name string, keys *string, ip byte, names ...string) {
		s := inShop(name, keys, ip)
		s.Ports = nil
		for i, n := range names {
			s.Ports = append(s.Ports, topology.ServicePort{Name: n, Port: uint16(80 + i), Protocol: topology.TCP})
		}
		b.SetService(s)
	}
	has := func(name, node string, names ...string) {
		s := ofShop(name, true, node)
		s.Ports = nil
		for _, n := range names {
			s.Ports = append(s.Ports, topology.SlicePort{Name: n, Port: 8080, Protocol: topology.TCP})
		}
		b.SetSlice(s)
	}
	viewer := topology.NewViewer("a-1", topology.Options{Datapath: topology.DatapathAuto})
	var index Unreached
	for _, tc := range []struct {
		what string
		do   func()
		want string
	}{
		{"its port is there", func() { ports("web", &keys, 1, "http"); has("web", "a-1", "http") }, ""},
		{"no port at all", func() { has("web", "a-1") }, "1 closed Service has a port that no endpoint here has: shop/web"},
		{"in another unit alone", func() { has("web", "b-1") }, ""},
		{"one of two", func() { ports("web", &keys, 1, "http", "metrics"); has("web", "a-1", "http") }, "1 closed Service has a port that no endpoint here has: shop/web"},
		{"both", func() { has("web", "a-1", "http", "metrics") }, ""},
		{"an open one", func() { ports("open", nil, 2, "http"); has("open", "a-1") }, ""},
	} {
		tc.do()
		r := &Report{Source: Live}
		index.Fill(r, viewer.See(b.Build()))
		if got := r.portless(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
		}
		var text strings.Builder
		if err := r.WriteText(&text, time.Now()); err != nil || strings.Contains(text.String(), "\nportless    ") != (tc.want != "") || strings.Contains(r.Summary(), "port that") != (tc.want != "") {
			t.Errorf("%s: %v\n%s\n%s", tc.what, err, text.String(), r.Summary())
		}
	}
}

// Of thousands the first are named, and the rest is counted, as they come and go.
func TestElsewhereOfMany(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var n named
	are := map[topology.ObjectKey]bool{}
	for range 500 {
		changed := map[topology.ObjectKey]bool{}
		for range random.IntN(20) + 1 {
			key := topology.ObjectKey{Namespace: "shop", Name: fmt.Sprintf("s%03d", random.IntN(200))}
			changed[key] = random.IntN(3) == 0
		}
		for key, is := range changed {
			if delete(are, key); is {
				are[key] = true
			}
		}
		var want []string
		for _, key := range slices.SortedFunc(maps.Keys(are), topology.ObjectKey.Compare) {
			want = append(want, key.String())
		}
		first := want[:min(len(want), mostUnreached)]
		if got, more := n.next(changed); !slices.Equal(got, first) || more != len(want)-len(first) {
			t.Fatalf("named are %v and %d more, want %v and %d", got, more, first, len(want)-len(first))
		}
	}
}

// What one Service costs that comes and goes does not follow from how many there are.
func TestElsewhereCostsWhatChanged(t *testing.T) {
	key := func(i int) topology.ObjectKey {
		return topology.ObjectKey{Namespace: "shop", Name: fmt.Sprintf("s%05d", i)}
	}
	var n named
	all := map[topology.ObjectKey]bool{}
	for i := range 10000 {
		all[key(i)] = true
	}
	n.next(all)
	unseen := topology.ObjectKey{Namespace: "shop", Name: "a"}
	n.are[unseen] = true // who looks at all of them finds it
	for _, i := range []int{0, mostUnreached, 9999} {
		for range 100 {
			n.next(map[topology.ObjectKey]bool{key(i): false})
			if names, _ := n.next(map[topology.ObjectKey]bool{key(i): true}); slices.Contains(names, unseen.String()) {
				t.Fatalf("Service %d came and went, and all were looked at", i)
			}
		}
	}
}
