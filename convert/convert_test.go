package convert

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	var obj T
	if err := yaml.UnmarshalStrict([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return &obj
}

// addrs reads "10.96.0.1 fd00::1".
func addrs(text string) (list []netip.Addr) {
	for word := range strings.FieldsSeq(text) {
		list = append(list, netip.MustParseAddr(word))
	}
	return list
}

// problems checks that there is one problem for each "field: words of the text".
func problems(t *testing.T, object string, got []topology.Problem, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("problems %v, want %q", got, want)
		return
	}
	for i, p := range got {
		field, text, _ := strings.Cut(want[i], ": ")
		if p.Object != object || p.Field != field || !strings.Contains(p.Text, text) {
			t.Errorf("problem %s, want one of %s with %q", p, object, want[i])
		}
	}
}

func TestService(t *testing.T) {
	key := topology.ObjectKey{Namespace: "shop", Name: "web"}
	keys := `["site", "*"]`
	const head = "metadata: {namespace: shop, name: web}\n"
	for name, tc := range map[string]struct {
		yaml string
		want topology.Service
	}{
		"both families, named ports": {
			head + "spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::1'], ports: [{name: http, port: 80, targetPort: web}, {name: dns, port: 53, protocol: UDP}, {name: sigtran, port: 2905, protocol: SCTP}]}",
			topology.Service{ClusterIPs: addrs("10.96.0.1 fd00::1"), Ports: []topology.ServicePort{
				{Name: "http", Protocol: topology.TCP, Port: 80}, {Name: "dns", Protocol: topology.UDP, Port: 53}, {Name: "sigtran", Protocol: topology.SCTP, Port: 2905},
			}},
		},
		"clusterIP alone, as an old manifest has it": {
			head + "spec: {clusterIP: 10.96.0.1}",
			topology.Service{ClusterIPs: addrs("10.96.0.1")},
		},
		"an address of IPv4 in IPv6 is of IPv4": {
			head + "spec: {clusterIPs: ['::ffff:10.96.0.1']}",
			topology.Service{ClusterIPs: addrs("10.96.0.1")},
		},
		"no address yet":  {head + "spec: {ports: [{port: 80}]}", topology.Service{Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}}}},
		"headless":        {head + "spec: {clusterIP: None, clusterIPs: [None]}", topology.Service{Headless: true}},
		"internal policy": {head + "spec: {internalTrafficPolicy: Local}", topology.Service{InternalLocal: true}},
		"the other one":   {head + "spec: {internalTrafficPolicy: Cluster}", topology.Service{}},
		"keys, and a grid": {
			`{metadata: {namespace: shop, name: web, annotations: {topologyKeys: '["site", "*"]', other: x}, labels: {superedge.io/grid-uniq-key: site, app: web}}}`,
			topology.Service{TopologyKeys: &keys, GridKey: "site"},
		},
		"of another proxy": {
			`{metadata: {namespace: shop, name: web, labels: {service.kubernetes.io/service-proxy-name: ""}}, spec: {clusterIP: nonsense, ports: [{port: 80}]}}`,
			topology.Service{Foreign: true},
		},
		"labelled headless, and not": {
			`{metadata: {namespace: shop, name: web, labels: {service.kubernetes.io/headless: ""}}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}`,
			topology.Service{Foreign: true},
		},
		"labelled headless, and so": {
			`{metadata: {namespace: shop, name: web, labels: {service.kubernetes.io/headless: ""}}, spec: {clusterIP: None}}`,
			topology.Service{Headless: true},
		},
		"a grid's key that no label can hold": {
			`{metadata: {namespace: shop, name: web, labels: {superedge.io/grid-uniq-key: x}, annotations: {gridmesh.io/unit-key: example.com/site}}}`,
			topology.Service{GridKey: "example.com/site"},
		},
		"the key of no grid": {`{metadata: {namespace: shop, name: web, annotations: {gridmesh.io/unit-key: site}}}`, topology.Service{}},
		"a name outside, and keys": {
			`{metadata: {namespace: shop, name: web, annotations: {topologyKeys: '["site"]'}}, spec: {type: ExternalName, externalName: example.com}}`,
			topology.Service{Foreign: true, Problems: []topology.Problem{{
				Object: "service shop/web", Field: "metadata.annotations[topologyKeys]",
				Text: `does nothing: the Service is an ExternalName, and whoever resolves it dials that name from wherever they are; select pods to keep traffic in units, or remove it`,
			}}},
		},
		"a name outside, and no keys": {
			`{metadata: {namespace: shop, name: web, annotations: {topologyKeys: '[]'}}, spec: {type: ExternalName, externalName: example.com}}`,
			topology.Service{Foreign: true},
		},
		"labelled headless, and keys with a slip": {
			`{metadata: {namespace: shop, name: web, annotations: {topologykeys: '["site"]'}, labels: {service.kubernetes.io/headless: ""}}, spec: {clusterIP: 10.96.0.1}}`,
			topology.Service{Foreign: true, Problems: []topology.Problem{{
				Object: "service shop/web", Field: "metadata.annotations[topologykeys]",
				Text: "does nothing: the Service is labelled service.kubernetes.io/headless, which every proxy passes over, and its ClusterIP is not served; remove the label, or the keys",
			}}},
		},
		"of another proxy, with keys": {
			`{metadata: {namespace: shop, name: web, annotations: {topologyKeys: '["site"]'}, labels: {service.kubernetes.io/service-proxy-name: x, service.kubernetes.io/headless: ""}}, spec: {clusterIP: 10.96.0.1}}`,
			topology.Service{Foreign: true},
		},
		"made in 2024": {
			`{metadata: {namespace: shop, name: web, creationTimestamp: "2024-01-02T03:04:05Z"}}`,
			topology.Service{Created: 1704164645},
		},
		"made before there was a clock": {
			`{metadata: {namespace: shop, name: web, creationTimestamp: "1931-01-02T03:04:05Z"}}`, topology.Service{},
		},
		"a path": {`{metadata: {namespace: shop, name: web, annotations: {gridmesh.io/datapath: kernel}}}`, topology.Service{Datapath: topology.DatapathKernel}},
		"no path": {
			`{metadata: {namespace: shop, name: web, annotations: {gridmesh.io/datapath: Envoy}}}`,
			topology.Service{Problems: []topology.Problem{{
				Object: "service shop/web", Field: "metadata.annotations[gridmesh.io/datapath]",
				Text: `"Envoy" is not known; use auto, envoy or kernel; until then the nodes' choice stands`,
			}}},
		},
		"a name outside": {head + "spec: {type: ExternalName, externalName: example.com, ports: [{port: 80}]}", topology.Service{Foreign: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Service(read[corev1.Service](t, tc.yaml))
			tc.want.Key = key
			if !tc.want.Foreign {
				tc.want.Selector = selector(nil)
			}
			if !reflect.DeepEqual(got, &tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, &tc.want)
			}
		})
	}
}

// What stands for a selector is the same in every version, whatever the order
// of its labels, and another for another selector.
func TestSelector(t *testing.T) {
	of := func(spec string) uint64 {
		return Service(read[corev1.Service](t, "{metadata: {namespace: shop, name: web}, spec: "+spec+"}")).Selector
	}
	const known, none = 18140649258947593701, 14695981039346656037
	for spec, want := range map[string]uint64{
		"{selector: {app: web, tier: a}}": known, "{selector: {tier: a, app: web}, clusterIP: None}": known,
		"{selector: {}}": none, "{ports: [{port: 80}]}": none, "{type: ExternalName, selector: {app: web}}": 0,
	} {
		if got := of(spec); got != want {
			t.Errorf("%s: %d, want %d", spec, got, want)
		}
	}
	for _, other := range []string{"{app: web}", "{app: web, tier: b}", "{app: a, tier: web}", `{app: 'web"', tier: a}`} {
		if got := of("{selector: " + other + "}"); got == known || got == none || got == 0 {
			t.Errorf("%s: %d, as something else", other, got)
		}
	}
}

// What is wrong is named and left out, the rest is served.
func TestMalformedService(t *testing.T) {
	got := Service(read[corev1.Service](t, `
metadata: {namespace: shop, name: web}
spec:
  clusterIPs: [nonsense, 127.0.0.1, 224.0.0.1, 0.0.0.0, 10.96.0.1, 10.96.0.2, "fe80::1%eth0"]
  ports: [{port: 0}, {port: -1}, {port: 65536}, {port: 80, protocol: QUIC}, {port: 81}]`))
	problems(t, "service shop/web", got.Problems,
		"spec.clusterIPs[0]: no IP address", "spec.clusterIPs[1]: 127.0.0.1 cannot be", "spec.clusterIPs[2]: 224.0.0.1 cannot be",
		"spec.clusterIPs[3]: 0.0.0.0 cannot be", "spec.clusterIPs[5]: second address of its family",
		"spec.ports[0].port: 0 is no port", "spec.ports[1].port: -1 is no port", "spec.ports[2].port: 65536 is no port", `spec.ports[3].protocol: "QUIC" is not known`)
	if want := addrs("10.96.0.1 fe80::1"); !slices.Equal(got.ClusterIPs, want) {
		t.Errorf("addresses %v, want %v", got.ClusterIPs, want)
	}
	if want := []topology.ServicePort{{Protocol: topology.TCP, Port: 81}}; !slices.Equal(got.Ports, want) {
		t.Errorf("ports %v, want %v", got.Ports, want)
	}
}

// An annotation of megabytes is not kept, and what is left of it is malformed:
// closed, never open.
func TestHugeAnnotationStaysClosed(t *testing.T) {
	s := read[corev1.Service](t, `{metadata: {namespace: shop, name: web}}`)
	for _, text := range []string{`["` + strings.Repeat("x", 1<<20) + `"]`, `["*"]` + strings.Repeat(" ", topology.MostKeys) + "x"} {
		s.Annotations = map[string]string{"topologyKeys": text}
		got := Service(s)
		if got.TopologyKeys == nil || len(*got.TopologyKeys) > 100 {
			t.Fatal("the annotation is kept")
		}
		if keys := topology.ParseKeys(got.TopologyKeys); keys.Mode != topology.Malformed || !strings.Contains(keys.Fault, fmt.Sprint("has ", len(text), " bytes")) {
			t.Errorf("it is read as %v", keys)
		}
	}
}

// Of what a tenant wrote a part may be repeated: it stays text, wherever it is cut.
func TestWhatIsCutStaysText(t *testing.T) {
	for shift := range 4 {
		long := strings.Repeat("x", shift) + strings.Repeat("\u20ac", 1<<12)
		s := read[corev1.Service](t, `{metadata: {namespace: shop, name: web}, spec: {externalIPs: ["`+long+`"]}}`)
		s.Annotations = map[string]string{names.TopologyKeys: long, names.Datapath: long}
		got := Service(s)
		if !utf8.ValidString(*got.TopologyKeys) || len(*got.TopologyKeys) > 100 {
			t.Errorf("shift %d: the annotation is kept as %d bytes", shift, len(*got.TopologyKeys))
		}
		if len(got.Problems) != 2 {
			t.Errorf("problems %v", got.Problems)
		}
		for _, p := range got.Problems {
			if !utf8.ValidString(p.Text) || len(p.Text) > 1<<10 {
				t.Errorf("shift %d: a problem of %d bytes: %q", shift, len(p.Text), p.Text)
			}
		}
	}
	// What is no text stays a mistake, and does not become what was not written.
	broken := "[\"si\xffte\"]"
	got := Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.TopologyKeys: broken}}})
	if keys := topology.ParseKeys(got.TopologyKeys); !utf8.ValidString(*got.TopologyKeys) || keys.Mode != topology.Malformed {
		t.Errorf("%q is read as %v", broken, keys)
	}
}

const sliceHead = `{metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}, `

func TestSlice(t *testing.T) {
	for name, tc := range map[string]struct {
		yaml string
		want topology.Slice
	}{
		"named ports": {
			sliceHead + "addressType: IPv4, ports: [{name: http, port: 8080}, {port: 53, protocol: UDP}, {name: all}]}",
			topology.Slice{Ports: []topology.SlicePort{{Name: "http", Protocol: topology.TCP, Port: 8080}, {Protocol: topology.UDP, Port: 53}}},
		},
		"one endpoint, by its first address": {
			sliceHead + "addressType: IPv4, endpoints: [{addresses: [10.1.0.1, 10.1.0.2], nodeName: a-1, hostname: web-0, targetRef: {kind: Pod, name: web-0}}]}",
			topology.Slice{Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.1.0.1"), Node: "a-1", Hostname: "web-0", Ready: true, Serving: true}}},
		},
		"conditions": {
			sliceHead + `addressType: IPv4, endpoints: [{addresses: [10.1.0.1], conditions: {ready: false}},
  {addresses: [10.1.0.2], conditions: {ready: false, serving: true, terminating: true}}, {addresses: [10.1.0.3], conditions: {ready: true, serving: false, terminating: false}}]}`,
			topology.Slice{Endpoints: []topology.Endpoint{
				{Addr: netip.MustParseAddr("10.1.0.1"), Serving: true},
				{Addr: netip.MustParseAddr("10.1.0.2"), Serving: true, Terminating: true},
				{Addr: netip.MustParseAddr("10.1.0.3"), Ready: true},
			}},
		},
		"hints": {
			sliceHead + "addressType: IPv4, endpoints: [{addresses: [10.1.0.1], zone: z1, hints: {forZones: [{name: z1}, {name: z2}], forNodes: [{name: a-1}]}}]}",
			topology.Slice{Endpoints: []topology.Endpoint{{
				Addr: netip.MustParseAddr("10.1.0.1"), Ready: true, Serving: true, HintZones: []string{"z1", "z2"}, HintNodes: []string{"a-1"},
			}}},
		},
		"IPv6": {
			sliceHead + "addressType: IPv6, endpoints: [{addresses: ['fd00::1']}]}",
			topology.Slice{IPv6: true, Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("fd00::1"), Ready: true, Serving: true}}},
		},
		"IPv6, without its zone": {
			sliceHead + "addressType: IPv6, endpoints: [{addresses: ['fd00::1%x']}]}",
			topology.Slice{IPv6: true, Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("fd00::1"), Ready: true, Serving: true}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Slice(read[discoveryv1.EndpointSlice](t, tc.yaml))
			tc.want.Key, tc.want.Service = topology.ObjectKey{Namespace: "shop", Name: "web-1"}, "web"
			if !reflect.DeepEqual(got, &tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, &tc.want)
			}
		})
	}
}

func TestSlicesOfNoUse(t *testing.T) {
	for name, text := range map[string]string{
		"no Service":       `{metadata: {name: x}, addressType: IPv4}`,
		"of another proxy": `{metadata: {name: x, labels: {kubernetes.io/service-name: web, service.kubernetes.io/service-proxy-name: x}}, addressType: IPv4}`,
		"names":            `{metadata: {name: x, labels: {kubernetes.io/service-name: web}}, addressType: FQDN, endpoints: [{addresses: [example.com]}]}`,
	} {
		if got := Slice(read[discoveryv1.EndpointSlice](t, text)); got != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestMalformedSlice(t *testing.T) {
	got := Slice(read[discoveryv1.EndpointSlice](t, sliceHead+`addressType: IPv4,
  ports: [{port: 0}, {port: 80, protocol: QUIC}, {port: 81}],
  endpoints: [{addresses: []}, {addresses: [nonsense]}, {addresses: ['fd00::1']}, {addresses: [127.0.0.1]}, {addresses: [169.254.0.1]}, {addresses: [10.1.0.1]}]}`))
	problems(t, "endpointslice shop/web-1", got.Problems,
		"ports[0].port: 0 is no port", `ports[1].protocol: "QUIC" is not known`,
		"endpoints[0].addresses: is empty", "endpoints[1].addresses: no IP address", "endpoints[2].addresses: not of the slice's addressType",
		"endpoints[3].addresses: cannot be dialled", "endpoints[4].addresses: cannot be dialled")
	if len(got.Ports) != 1 || got.Ports[0].Port != 81 || len(got.Endpoints) != 1 || got.Endpoints[0].Addr != netip.MustParseAddr("10.1.0.1") {
		t.Errorf("the rest is %+v", got)
	}
}

// A broken writer makes every endpoint wrong: the problems are bounded.
func TestProblemsOfASliceAreBounded(t *testing.T) {
	s := read[discoveryv1.EndpointSlice](t, sliceHead+"addressType: IPv4}")
	s.Endpoints = make([]discoveryv1.Endpoint, 1000)
	if n := len(Slice(s).Problems); n == 0 || n > 20 {
		t.Errorf("%d problems", n)
	}
}

// A mistyped annotation is kept with its name; the right one counts.
func TestTopologyKeysMistyped(t *testing.T) {
	for _, c := range []struct {
		annotations    map[string]string
		keys, misspelt string
	}{
		{map[string]string{"other": "x"}, "", ""},
		{map[string]string{"topologyKeys": "right"}, "right", ""},
		{map[string]string{"topologykeys": "low"}, "low", "topologykeys"},
		{map[string]string{"topologykeys": "low", "TopologyKeys": "high"}, "high", "TopologyKeys"},
		{map[string]string{"topologykeys": "low", "topologyKeys": "right"}, "right", ""},
		{map[string]string{"TOPOLOGYKEYS": strings.Repeat("x", 9<<10)}, "(too long) 9216", "TOPOLOGYKEYS"},
		{map[string]string{"topologyKey": "one"}, "one", "topologyKey"},
		{map[string]string{"superedge.io/topologyKeys": "theirs", "z/topologyKeys": "nobody's"}, "theirs", "superedge.io/topologyKeys"},
	} {
		got := Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: c.annotations}})
		if keys := got.TopologyKeys; (keys == nil) != (c.keys == "") || keys != nil && *keys != c.keys || got.Misspelt != c.misspelt {
			t.Errorf("%v: %v as %q", c.annotations, keys, got.Misspelt)
		}
	}
}

// Of an object with very many annotations only the right name counts: nobody
// typed them, and to look at each costs everybody.
func TestManyAnnotations(t *testing.T) {
	list := map[string]string{"topologyKey": "mistyped", "gridmesh.io/x": ""}
	for i := range mostNames - 2 {
		list[fmt.Sprintf("example.com/%d", i)] = ""
	}
	see := func() *topology.Service {
		return Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: list}})
	}
	if got := see(); got.Misspelt != "topologyKey" {
		t.Errorf("of %d annotations: %q", len(list), got.Misspelt)
	}
	list["one/more"] = ""
	if got := see(); got.TopologyKeys != nil || len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Text, "too many to look for mistyped names") {
		t.Errorf("of %d annotations: %v, %v", len(list), got.TopologyKeys, got.Problems)
	}
	list["topologyKeys"] = "right"
	if got := see(); got.TopologyKeys == nil || *got.TopologyKeys != "right" || len(got.Problems) > 0 {
		t.Errorf("of %d annotations the right one does not count", len(list))
	}
}

// What can be meant for nothing but topologyKeys is told from what others may
// have called so.
func TestMistyped(t *testing.T) {
	for name, want := range map[string]bool{
		"topologykeys": true, "topologyKey": true, "topology-keys": true, "topology_keys": true, "topology.keys": true,
		"topolgyKeys": true, "topologyKyes": true, "toplogyKey": true, "TopologyKeyss": true,
		"superedge.io/topologyKeys": true, "superedge.io/topology-key": true, "gridmesh.io/topologyKeys": true,
		"SuperEdge.io/topologyKeys": true, "apps.superedge.io/topologyKeys": true, "kubernetes.io/topology-keys": true,
		"service.kubernetes.io/topology-keys": true, "service.kubernetes.io/topologyKeys": true, "descheduler.kubernetes.io/topologyKey": false, "scheduler.k8s.io/topologyKey": false,
		"example.com/topologyKeys": false, "gridmesh.io.example.com/topologyKeys": false, "notgridmesh.io/topologyKeys": false,
		"topology": false, "keys": false, "": false, "/": false, "superedge.io/": false, "topologyMode": false, "topologySpread": false,
		"service.kubernetes.io/topology-mode": false, "service.kubernetes.io/topology-aware-hints": false,
		"gridmesh.io/unit-key": false, "topologyKeys/x": false, strings.Repeat("topologyKeys", 30): false,
	} {
		if got := mistyped(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// Annotations that bear gridmesh's name and mean nothing are named, a few of
// them, whether the Service has keys or not.
func TestStrangersAmongAnnotations(t *testing.T) {
	at := func(annotations map[string]string) []topology.Problem {
		return Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: annotations}}).Problems
	}
	problems(t, "service shop/web", at(map[string]string{"gridmesh.io/data-path": "kernel", "gridmesh.io/unit": "a", "example.com/datapath": "x"}),
		"metadata.annotations[gridmesh.io/data-path]: does nothing")
	problems(t, "service shop/web", at(map[string]string{"gridmesh.io/data-path": "kernel", "topologyKeys": `["site"]`}),
		"metadata.annotations[gridmesh.io/data-path]: does nothing; correct its name")
	problems(t, "service shop/web", at(map[string]string{"gridmesh.io/topologyKeys": `["site"]`, "topologyKeys": `["site"]`}),
		"metadata.annotations[gridmesh.io/topologyKeys]: does nothing")
	many := map[string]string{}
	for i := range 9 {
		many[fmt.Sprintf("gridmesh.io/x%d", i)] = ""
	}
	problems(t, "service shop/web", at(many),
		"metadata.annotations[gridmesh.io/x0]: ", "metadata.annotations[gridmesh.io/x1]: ", "metadata.annotations[gridmesh.io/x2]: ")
}

// A label is nothing that anybody reads: told where the Service has no keys, once.
func TestKeysAsALabel(t *testing.T) {
	at := func(annotations map[string]string, labels ...string) []topology.Problem {
		m := metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: annotations, Labels: map[string]string{"app": "web"}}
		for _, name := range labels {
			m.Labels[name] = "site"
		}
		return Service(&corev1.Service{ObjectMeta: m}).Problems
	}
	problems(t, "service shop/web", at(nil, "topologyKeys"), "metadata.labels[topologyKeys]: the Service is open to every node")
	problems(t, "service shop/web", at(nil, "topologyKey", "topology-keys"), "metadata.labels[topology-keys]: write metadata.annotations[topologyKeys]")
	problems(t, "service shop/web", at(map[string]string{"topologyKeys": `["site"]`}, "topologyKeys"))
	problems(t, "service shop/web", at(nil, "topology.kubernetes.io/zone", "topology"))
}

// What a Service asks for besides ClusterIPs is noted, each by itself.
func TestUnserved(t *testing.T) {
	for spec, want := range map[string]topology.Unserved{
		"{}": 0,
		"{sessionAffinity: None, type: ClusterIP, ports: [{port: 80}]}":                   0,
		"{sessionAffinity: ClientIP}":                                                     topology.UnservedAffinity,
		"{type: NodePort, ports: [{port: 80}, {port: 81, nodePort: 30080}]}":              topology.UnservedNodePorts,
		"{type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}": topology.UnservedLoadBalancer,
		"{type: LoadBalancer, ports: [{port: 80, nodePort: 30080}]}":                      topology.UnservedLoadBalancer | topology.UnservedNodePorts,
		"{externalIPs: [192.0.2.1]}":                                                      topology.UnservedExternalIPs,
		"{type: ExternalName, externalName: x, externalIPs: [192.0.2.1]}":                 0,
	} {
		if got := Service(&corev1.Service{Spec: *read[corev1.ServiceSpec](t, spec)}); got.Unserved != want {
			t.Errorf("%s: %b, want %b", spec, got.Unserved, want)
		}
	}
}

func TestNode(t *testing.T) {
	got := Node(&metav1.ObjectMeta{Name: "a-1", Labels: map[string]string{"site": "a"}, Annotations: map[string]string{"x": "y"}})
	if want := (&topology.Node{Name: "a-1", Labels: map[string]string{"site": "a"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestServiceCIDR(t *testing.T) {
	got := ServiceCIDR(&networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.5.5/16", "nonsense", "fd00::/112"}}})
	if text := fmt.Sprint(got); text != "[10.96.0.0/16 fd00::/112]" {
		t.Errorf("got %s", text)
	}
}

// By which addresses a Node is known are its InternalIPs, in its order.
func TestOwnNode(t *testing.T) {
	n := corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeExternalIP, Address: "203.0.113.1"},
		{Type: corev1.NodeInternalIP, Address: "::ffff:192.0.2.1"},
		{Type: corev1.NodeHostName, Address: "192.0.2.9"},
		{Type: corev1.NodeInternalIP, Address: "a-1"},
		{Type: corev1.NodeInternalIP, Address: "2001:db8::1"},
	}}}
	if got := fmt.Sprint(OwnNodeOf(&n)); got != "{[] [192.0.2.1 2001:db8::1]}" {
		t.Errorf("got %s", got)
	}
}

func TestPodCIDRs(t *testing.T) {
	for want, spec := range map[string]corev1.NodeSpec{
		"[]":                          {},
		"[10.244.1.0/24]":             {PodCIDR: "10.244.1.5/24"},
		"[10.244.2.0/24 fd00:2::/64]": {PodCIDR: "10.244.2.0/24", PodCIDRs: []string{"10.244.2.1/24", "nonsense", "fd00:2::1/64"}},
	} {
		if got := fmt.Sprint(PodCIDRs(&spec)); got != want {
			t.Errorf("%+v: %s, want %s", spec, got, want)
		}
	}
}
