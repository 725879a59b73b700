package render

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/rogpeppe/go-internal/diff"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func tiers() []topology.Tier {
	return []topology.Tier{
		{Key: "unit", Endpoints: []topology.Target{{Addr: netip.MustParseAddrPort("10.1.0.1:8080"), Node: "a-1"}, {Addr: netip.MustParseAddrPort("10.1.0.2:8080"), Node: "a-2"}}},
		{Key: "*", Endpoints: []topology.Target{{Addr: netip.MustParseAddrPort("[fd00::1]:8080"), Node: "b-1"}}},
	}
}

// The listeners and the templates are a contract with every Envoy in the
// field. When this fails because a listener changed: every captured connection
// of every node is drained by the update. When a cluster changed: all clusters
// are sent again and warmed. A feature of clusters says so by a word in its
// version; for what else a template holds, raise its name. Say it in CHANGELOG.md;
// then: make golden. Where what Envoys hold will do, the template
// before goes on in listenersBefore, and its versions stay here.
func TestTemplatesAreAContract(t *testing.T) {
	var out bytes.Buffer
	udp := topology.Frontend{Addr: netip.MustParseAddr("10.96.0.10"), Port: 53, Protocol: topology.UDP}
	cfg := Default()
	cfg.Redirect = true
	list := append(Listeners(cfg),
		UDPListener(udp),
		Cluster(ClusterSpec{"10.96.0.10:80", true}, Default()), Cluster(ClusterSpec{"10.96.0.10:80", false}, Default()),
		Endpoints("10.96.0.10:80", topology.TCP, tiers()), Endpoints("10.96.0.10:53/udp", topology.UDP, nil))
	for _, r := range list {
		body, err := protojson.Marshal(r.Message())
		if err != nil {
			t.Fatal(err)
		}
		var pretty bytes.Buffer // protojson's own spacing is random on purpose
		if err := json.Indent(&pretty, compact(t, body), "", "  "); err != nil {
			t.Fatal(err)
		}
		before := ""
		if len(r.Before) > 0 {
			before = ", or before " + strings.Join(r.Before, " ")
		}
		fmt.Fprintf(&out, "-- %s version %s%s --\n%s\n", r.Name, r.Version, before, pretty.Bytes())
	}
	const path = "testdata/templates.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if changed := diff.Diff(path, want, "what is rendered", out.Bytes()); changed != nil {
		t.Errorf("the templates changed; read the comment of this test:\n%s", changed)
	}
}

// What Envoys in the field hold of the templates before is known by its version.
func TestVersionsBeforeAreThoseOfTheField(t *testing.T) {
	want := map[string]string{"tcp4-keep": "a063af0f74a03b1b", "tcp4-plain": "9efd7e0bf0144ae1"}
	for _, r := range Listeners(Default()) {
		if v, ok := want[r.Name]; ok && (!r.Suffices(v) || !r.Suffices(r.Version) || r.Suffices("another")) {
			t.Errorf("%s: version %s is not taken for one before %s; those are %v", r.Name, v, r.Version, r.Before)
		}
	}
}

func compact(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, body); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Every resource passes the rules that Envoy checks before it takes one.
func TestResourcesAreValid(t *testing.T) {
	w := topologytest.New(7)
	for range 200 {
		w.Step()
	}
	cat, _ := NewCataloger(Default(), 500).Next(topology.See(w.Builder.Build(), "n0", topology.Options{}), false)
	checked := 0
	for _, typeURL := range []string{ClusterType, EndpointType, ListenerType} {
		names := append(cat.Names(), "unknown:1")
		if typeURL == ListenerType {
			names = cat.Wildcard(typeURL)
		}
		for _, name := range names {
			r, ok := cat.Resource(typeURL, name)
			if !ok {
				t.Fatalf("no %s %s", typeURL, name)
			}
			v, ok := r.Message().(interface{ ValidateAll() error })
			if !ok {
				t.Fatalf("%s has no validation", typeURL)
			}
			if err := v.ValidateAll(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			checked++
		}
	}
	if checked < 15 {
		t.Errorf("only %d resources were checked", checked)
	}
}

// The law: a catalog kept over a history equals one made anew, and Changed
// names everything that differs.
func TestCatalogerIsIncremental(t *testing.T) {
	for seed := range testkit.Histories(8) {
		for _, most := range []int{500, 3} {
			w := topologytest.New(seed)
			viewer := topology.NewViewer("n0", topology.Options{})
			kept := NewCataloger(Default(), most)
			before := map[string]string{}
			for step := range 80 {
				w.Step()
				view := viewer.See(w.Snapshot())
				_, fell := kept.Next(view, false)
				kept.Used(nil, nil) // nor is what was near until now
				got, changed := kept.Next(view, false)
				for typeURL, names := range fell {
					changed[typeURL] = append(changed[typeURL], names...)
				}
				fresh, _ := NewCataloger(Default(), most).Next(view, false)
				now, want := versions(got), versions(fresh)
				keepOpen(t, want, now, before)
				if !reflect.DeepEqual(now, want) {
					t.Fatalf("seed %d step %d: kept %v, anew %v", seed, step, now, want)
				}
				for key := range now {
					if before[key] != now[key] && !listed(changed, key) {
						t.Fatalf("seed %d step %d: %s changed and Changed does not say so", seed, step, key)
					}
				}
				for key := range before {
					if _, still := now[key]; !still && !listed(changed, key) {
						t.Fatalf("seed %d step %d: %s went and Changed does not say so", seed, step, key)
					}
				}
				before = now
			}
		}
	}
}

// keepOpen takes over the UDP listeners that only a catalog with a history has,
// with their clusters: each was open before, and its frontend is still there.
func keepOpen(t *testing.T, want, now, before map[string]string) {
	t.Helper()
	for key, version := range now {
		address, udp := strings.CutPrefix(key, ListenerType+" "+udpPrefix)
		if _, anew := want[key]; !udp || anew {
			continue
		}
		c := ClusterType + " " + address + udpSuffix
		if before[key] == "" || want[c] == "" {
			t.Fatalf("%s was opened although nothing may use it", key)
		}
		want[key], want[c] = version, now[c]
	}
}

func versions(c *Catalog) map[string]string {
	all := map[string]string{}
	for _, name := range c.Names() {
		cluster, _ := c.Resource(ClusterType, name)
		ends, _ := c.Resource(EndpointType, name)
		all[ClusterType+" "+name] = fmt.Sprint(cluster.Version, c.Preloaded(name))
		all[EndpointType+" "+name] = ends.Version
	}
	for _, name := range c.Wildcard(ListenerType) {
		l, _ := c.Resource(ListenerType, name)
		all[ListenerType+" "+name] = l.Version
	}
	return all
}

func listed(changed Changed, key string) bool {
	for typeURL, names := range changed {
		if slices.ContainsFunc(names, func(n string) bool { return typeURL+" "+n == key }) {
			return true
		}
	}
	for _, l := range Listeners(Default()) { // constant: never listed
		if key == ListenerType+" "+l.Name {
			return true
		}
	}
	return false
}

// Different content has different versions; the same content the same one.
func TestVersionsFollowContent(t *testing.T) {
	a, b := tiers(), tiers()
	b[0].Endpoints[0].Node = "elsewhere" // not part of what Envoy sees
	if Endpoints("x", topology.TCP, a).Version != Endpoints("x", topology.TCP, b).Version {
		t.Error("the version depends on what Envoy does not see")
	}
	b[0].Endpoints[0].Addr = netip.MustParseAddrPort("10.1.0.9:8080")
	if Endpoints("x", topology.TCP, a).Version == Endpoints("x", topology.TCP, b).Version {
		t.Error("the version does not follow an endpoint")
	}
	other := Default()
	other.ConnectTimeout = time.Second / 2
	if Cluster(ClusterSpec{"x", true}, Default()).Version == Cluster(ClusterSpec{"x", true}, other).Version {
		t.Error("the version does not follow the connect timeout")
	}
	if proto.Equal(Cluster(ClusterSpec{"x", true}, Default()).Message(), Cluster(ClusterSpec{"x", false}, Default()).Message()) {
		t.Error("a Service without keys has the unit's connect timeout")
	}
}

// An endpoint beyond the connect timeout of a unit is reached where it is the
// nearest that there is.
func TestConnectTimeoutFollowsTheNearestTier(t *testing.T) {
	for what, tc := range map[string]struct {
		keys  string
		nodes []string
		want  time.Duration
	}{
		"closed":                       {`["unit"]`, []string{"a-1"}, 300 * time.Millisecond},
		"closed, nothing there":        {`["unit"]`, []string{"b-1"}, 300 * time.Millisecond},
		"open, with some in the unit":  {`["unit","*"]`, []string{"a-1", "b-1"}, 300 * time.Millisecond},
		"open, with none in the unit":  {`["unit","*"]`, []string{"b-1"}, farConnectTimeout},
		"for everybody, by annotation": {`["*"]`, []string{"a-1"}, farConnectTimeout},
		"without keys":                 {"", []string{"a-1"}, farConnectTimeout},
	} {
		w := newUDPWorld(500)
		w.service(named("s"), 9, tc.keys, topology.TCP, []uint16{80}, tc.nodes...)
		cat, _ := w.next()
		r, _ := cat.Resource(ClusterType, "10.96.0.9:80")
		if got := r.Message().(*cluster.Cluster).GetConnectTimeout().AsDuration(); got != tc.want {
			t.Errorf("%s: %s, want %s", what, got, tc.want)
		}
	}
}

// Units may have the same addresses. An address is in one tier, the nearest.
func TestAnAddressIsInItsFirstTier(t *testing.T) {
	at := func(addrs ...string) (list []topology.Target) {
		for _, a := range addrs {
			list = append(list, topology.Target{Addr: netip.MustParseAddrPort(a), Node: "of " + a})
		}
		return list
	}
	both := []topology.Tier{
		{Key: "rack", Endpoints: at("10.1.0.1:80", "10.1.0.2:80")},
		{Key: "unit", Endpoints: at("10.1.0.2:80")},
		{Key: "*", Endpoints: at("10.1.0.1:80", "10.1.0.1:81", "10.1.0.3:80")},
	}
	want := []topology.Tier{both[0], {Key: "*", Endpoints: at("10.1.0.1:81", "10.1.0.3:80")}}
	got, alone := Endpoints("x", topology.TCP, both), Endpoints("x", topology.TCP, want)
	if got.Version != alone.Version || !proto.Equal(got.Message(), alone.Message()) {
		t.Errorf("got %v", got.Message())
	}
	if len(both[2].Endpoints) != 3 || both[1].Endpoints[0].Node != "of 10.1.0.2:80" {
		t.Error("the view was written to")
	}
}

// A feature is a line in the list: it sets its part of the cluster, and its
// version reaches every cluster's version.
func TestClusterFeatureIsOneLine(t *testing.T) {
	spec := ClusterSpec{Name: "10.96.0.10:80"}
	added := clusterFeature{
		version: func(ClusterSpec, Config) []string { return []string{"zone-aware-1"} },
		apply:   func(c *cluster.Cluster, _ ClusterSpec, _ Config) { c.AltStatName = "added" },
	}
	before, after := Cluster(spec, Default()), clusterOf(append(slices.Clone(clusterFeatures), added), spec, Default())
	if before.Version == after.Version {
		t.Error("the version does not follow a new feature")
	}
	if got := after.Message().(*cluster.Cluster); got.GetAltStatName() != "added" || got.GetOutlierDetection() == nil {
		t.Errorf("got %v", got)
	}
}
