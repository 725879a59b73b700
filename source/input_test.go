package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/topology"
)

const (
	aService = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.%d, ports: [{port: 80}]}}"
	aSlice   = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, labels: {%s}}, addressType: IPv4, endpoints: []}"
)

// told checks that there is one problem for each of what is wanted, in order.
func told(t *testing.T, got []topology.Problem, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d problems, want %d: %v", len(got), len(want), got)
		return
	}
	for i, p := range got {
		for part := range strings.SplitSeq(want[i], "…") {
			if !strings.Contains(p.String(), part) {
				t.Errorf("problem %q, want %q in it", p, part)
			}
		}
	}
}

// texts are manifests that were given as standard input; both readings of them
// agree in what is wrong.
func texts(t *testing.T, docs ...string) *topology.Snapshot {
	t.Helper()
	in := Input{Paths: []string{Stdin}, Texts: map[string][]byte{Stdin: []byte(strings.Join(docs, "\n---\n"))}}
	s, err := in.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Kinds and versions that are nearly ours, or ours and do not exist, are told;
// what is others' is passed over.
func TestMistakenKinds(t *testing.T) {
	for doc, want := range map[string]string{
		"{apiVersion: superedge.io/v1beta1, kind: ServiceGrid, metadata: {name: x}}":       "servicegrid default/x (standard input document 1): apiVersion: …write apiVersion: superedge.io/v1",
		"{apiVersion: apps.superedge.io/v1, kind: DeploymentGrid, metadata: {name: x}}":    "write apiVersion: superedge.io/v1",
		"{apiVersion: gridmesh.io/v1, kind: StatefulSetGrid, metadata: {name: x}}":         "write apiVersion: superedge.io/v1",
		"{apiVersion: apps/v1, kind: StatefulSetGrid, metadata: {name: x}}":                "write apiVersion: superedge.io/v1",
		"{apiVersion: superedge.io/v1, kind: servicegrid, metadata: {name: x}}":            "kind: …write kind: ServiceGrid",
		"{apiVersion: superedge.io/v1, kind: ServiceGrids, metadata: {name: x}}":           "kind: …write kind: ServiceGrid",
		"{apiVersion: superedge.io/v1, kind: JobGrid, metadata: {name: x}}":                "superedge.io/v1 has no JobGrid…DeploymentGrid, StatefulSetGrid, ServiceGrid",
		"{apiVersion: gridmesh.io/v1, kind: Unit, metadata: {name: x}}":                    "gridmesh.io/v1 has no Unit",
		"{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice, metadata: {name: x}}": "write apiVersion: discovery.k8s.io/v1",
		"{apiVersion: v1, kind: EndpointSlice, metadata: {name: x}}":                       "write apiVersion: discovery.k8s.io/v1",
		"{apiVersion: apps/v1, kind: Service, metadata: {name: x}}":                        "write apiVersion: v1",
		"{apiVersion: v1, kind: service, metadata: {name: x}}":                             "write kind: Service",
		"{apiVersion: v1, kind: Nodes, metadata: {name: x}}":                               "write kind: Node",
		"{apiVersion: v1, kind: Srevice, metadata: {name: x}}":                             "service default/x …kind: Srevice is none; the document is left out: write kind: Service",
		"{apiVersion: v1, kind: Servce, metadata: {name: x}}":                              "write kind: Service",
		"{apiVersion: v1, kind: Nodde, metadata: {name: x}}":                               "write kind: Node",
		"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlize, metadata: {name: x}}":      "write kind: EndpointSlice",
		"{apiVersion: apps/v1, kind: DeploymentGird, metadata: {name: x}}":                 "write apiVersion: superedge.io/v1",
		"{kind: Service, metadata: {name: x}}":                                             "service default/x (standard input document 1): apiVersion: is missing",
		"{apiVersion: v1, metadata: {name: x}}":                                            "kind: is missing",
		"{metadata: {name: x}}":                                                            "kind: is missing, as is apiVersion",
	} {
		s := texts(t, doc)
		told(t, s.Problems, want)
		objects, problems, err := Input{Paths: []string{Stdin}, Texts: map[string][]byte{Stdin: []byte(doc)}}.Objects()
		if err != nil || len(objects) > 0 {
			t.Errorf("%s is taken as an object: %v", doc, err)
		}
		told(t, problems, want)
	}
	told(t, texts(t,
		"# nothing but a comment", "",
		"{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: x}}",
		"{apiVersion: management.cattle.io/v3, kind: Node, metadata: {name: x}}",
		"{apiVersion: site.superedge.io/v1alpha2, kind: NodeUnit, metadata: {name: x}}",
		"{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: x}}",
		"{apiVersion: networking.k8s.io/v1beta1, kind: ServiceCIDR, metadata: {name: x}, spec: {cidrs: [10.96.0.0/16]}}",
		"{apiVersion: metrics.k8s.io/v1beta1, kind: NodeMetrics, metadata: {name: x}}",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}",
		"{apiVersion: example.com/v1, kind: Device, metadata: {name: x}}",
		"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: x}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: x}}",
	).Problems)
}

// Endpoints serve nothing by themselves; of a cluster's own the slices are there too.
func TestEndpoints(t *testing.T) {
	told(t, texts(t,
		"{apiVersion: v1, kind: Endpoints, metadata: {name: x}, subsets: [{addresses: [{ip: 10.1.0.1}]}]}",
		"{apiVersion: v1, kind: Endpoints, metadata: {name: z, uid: u}, subsets: [{addresses: [{ip: 10.1.0.1}]}]}",
	).Problems, "endpoints default/x (standard input document 1): kind: Endpoints are not read…write these (discovery.k8s.io/v1, with the label kubernetes.io/service-name)")
}

// A value of another type is told with its field and what it wants; each field
// that does not exist by itself, and of very many some.
func TestMisfits(t *testing.T) {
	for doc, want := range map[string]string{
		"{apiVersion: v1, kind: Service, metadata: {name: x, annotations: {topologyKeys: [site]}}}": `service default/x (standard input document 1): metadata.annotations[topologyKeys]: cannot be read…left out: it is a list; a string is wanted: write '["site"]', in quotes`,
		"{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {clusterIP: {}}}":               "spec.clusterIP: cannot be read…left out: it is an object; a string is wanted",
		"{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: http}]}}":       `spec.ports[0].port: cannot be read…it is a string, "http"; an integer is wanted`,
		`{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: "80"}]}}`:       "spec.ports[0].port: cannot be read…an integer is wanted: write 80, without quotes",
		"{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: 3000000000}]}}": "spec.ports[0].port: cannot be read…it is 3000000000, and no more than 32 bits are kept of it",
		"{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: 1.5}]}}":        "spec.ports[0].port: cannot be read…it is 1.5, a number; an integer is wanted",
		"{apiVersion: v1, kind: Service, metadata: {name: x, labels: {app: 1}}}":                    `metadata.labels[app]: cannot be read…it is 1, a number; a string is wanted: write "1", in quotes`,
		"{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {selector: {app: [a]}}}":        "spec.selector[app]: cannot be read…it is a list; a string is wanted",
		"{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{targetPort: {}}]}}":   "spec.ports[0].targetPort: cannot be read…it is an object; an integer or a string is wanted, as 8080, http",
		"{apiVersion: v1, kind: Node, metadata: {name: x}, status: {capacity: {cpu: lots}}}":        "node x (standard input document 1): status.capacity[cpu]: cannot be read…a quantity is wanted, as 100m or 2Gi",
		"{apiVersion: v1, kind: Node, metadata: {name: x, creationTimestamp: today}}":               "metadata.creationTimestamp: cannot be read…a time is wanted",
		"{apiVersion: v1, kind: Service, metadata: {name: x}, spec: []}":                            "spec: cannot be read…an object is wanted",
		"\xff\xfea\x00-\x00":            "standard input: is UTF-16",
		"\xfe\xff\x00a\x00-":            "standard input: is UTF-16",
		"\xff\xfe\x00\x00a\x00\x00\x00": "standard input: is UTF-32, and is left out; write it as UTF-8",
		"\x00\x00\xfe\xff\x00\x00\x00a": "standard input: is UTF-32",
		"a\x00p\x00i\x00":               "standard input: is no text in UTF-8: it has NUL bytes",
		"\x00a\x00p\x00i":               "standard input: is no text in UTF-8: it has NUL bytes",
		"\x1f\x8b\x08\x00":              "standard input: is compressed, and is left out; say: gzip -dc",
		"just a text":                   `standard input document 1: is no Kubernetes manifest and is left out: it is a string, "just a text"; an object is wanted; write apiVersion, kind and metadata`,
		"{apiVersion: v1, kind: Service, metadata: {name: 1}}": `metadata.name: is no Kubernetes manifest…it is 1, a number; a string is wanted: write "1", in quotes`,
	} {
		told(t, texts(t, doc).Problems, want)
	}
	told(t, texts(t, "{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {clusterIP: None, one: 1, two: 2}}").Problems, `spec.one: does not exist, and is passed over; correct it`, `spec.two: does not exist, and is passed over; correct it`)
	for meta, want := range map[string]string{
		"metadata: {name: x}, spec: {clusterIP: None, topologyKeys: [site]}":                                         `spec.topologyKeys: does not exist, and is passed over; the annotation is meant: write metadata.annotations[topologyKeys], as '["unit"]'; without the annotation topologyKeys, as it stands, the Service is open to every node`,
		"metadata: {name: x, annotation: {topologyKeys: '[]'}}, spec: {clusterIP: None}":                             `metadata.annotation: does not exist, and is passed over; write metadata.annotations; without the annotation topologyKeys, as it stands, the Service is open`,
		"metadata: {name: x, annotations: {topologyKeys: '[\"site\"]'}}, spec: {clusterIP: None, topologyKey: site}": `spec.topologyKey: does not exist, and is passed over; the annotation is meant: write metadata.annotations[topologyKeys], as '["unit"]'`,
		"metadata: {name: x}, topologyKeys: [], spec: {clusterIP: None}":                                             "is open to every node",
	} {
		told(t, texts(t, "{apiVersion: v1, kind: Service, "+meta+"}").Problems, want)
	}
	many := make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprintf("x%d: 1", i)
	}
	problems := texts(t, "{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {clusterIP: None, "+strings.Join(many, ", ")+"}}").Problems
	if n := len(problems); n != maxUnknown+1 || !strings.Contains(problems[n-1].Text, "40 more fields") {
		t.Errorf("%d problems: %v", n, problems)
	}
}

// The kinds of grids are those that are installed.
func TestKindsOfGrids(t *testing.T) {
	crds, err := apiv1.CRDs()
	if err != nil || len(crds) != len(grids) {
		t.Fatalf("%d CRDs, %v; known are %v", len(crds), err, grids)
	}
	all := ""
	for _, crd := range crds {
		all += string(crd)
	}
	for _, kind := range grids {
		if !strings.Contains(all, "kind: "+kind+"\n") {
			t.Errorf("no CRD has %s", kind)
		}
	}
	if group, version, _ := strings.Cut(gridVersion, "/"); !strings.Contains(all, "group: "+group+"\n") || !strings.Contains(all, "name: "+version+"\n") {
		t.Errorf("no CRD has %s", gridVersion)
	}
}

// Of an object that is there twice the last counts, and it is told; not where it
// is put over what an API server has.
func TestTwice(t *testing.T) {
	one, two := fmt.Sprintf(aService, 1), fmt.Sprintf(aService, 2)
	node := "{apiVersion: v1, kind: Node, metadata: {name: a-1, labels: {site: %s}}}"
	s := texts(t, one, two, fmt.Sprintf(node, "a"), fmt.Sprintf(node, "b"))
	told(t, s.Problems,
		"node a-1 (standard input document 4): is in standard input document 3 as well; this one counts",
		"service default/web (standard input document 2): is in standard input document 1 as well; this one counts")
	if e, _ := s.Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"}); e.Service.ClusterIPs[0].String() != "10.96.0.2" {
		t.Errorf("%v counts", e.Service.ClusterIPs)
	}
	live := strings.Replace(one, "name: web", "name: web, uid: u", 1)
	told(t, texts(t, live, two).Problems)
	told(t, texts(t, two, live).Problems, "document 2")
	told(t, texts(t, live, live).Problems, "document 2")
	other := strings.Replace(one, "name: web", "name: web, namespace: other", 1)
	told(t, texts(t, one, other).Problems)

	docs := []string{one, two, strings.Replace(one, "apiVersion: v1", "apiVersion: serving.knative.dev/v1", 1)}
	objects, problems, err := Input{Paths: []string{Stdin}, Texts: map[string][]byte{Stdin: []byte(strings.Join(docs, "\n---\n"))}}.Objects()
	if err != nil || len(objects) != 3 {
		t.Errorf("%d objects, %v", len(objects), err)
	}
	told(t, problems, "service default/web (standard input document 2)")

	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: n%d}}", i/2))
	}
	if got := texts(t, many...).Problems; len(got) != mostDoubts+1 || !strings.Contains(got[mostDoubts].Text, "10 more") {
		t.Errorf("of 30 there are %d: %v", len(got), got)
	}
}

// A slice of no Service is told, where people wrote it.
func TestOrphans(t *testing.T) {
	slice := func(label string) string { return fmt.Sprintf(aSlice, label) }
	service := fmt.Sprintf(aService, 1)
	told(t, texts(t, service, slice("kubernetes.io/service-name: web")).Problems)
	told(t, texts(t, service, slice("kubernetes.io/service-name: wbe")).Problems,
		"endpointslice default/web-1 (standard input document 2): metadata.labels[kubernetes.io/service-name]: names Service default/wbe, which is not here")
	told(t, texts(t, service, slice("")).Problems, "metadata.labels[kubernetes.io/service-name]: is missing")
	told(t, texts(t, service, slice("service.kubernetes.io/service-proxy-name: x")).Problems)
	told(t, texts(t, strings.Replace(slice(""), "name: web-1", "name: web-1, uid: u", 1)).Problems)
	told(t, texts(t, strings.Replace(slice("kubernetes.io/service-name: wbe"), "name: web-1", "name: web-1, uid: u", 1)).Problems)
}

// What leads to no manifest is an error that says so.
func TestPathsToNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "README.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Input{Paths: []string{dir}}.Objects()
	for _, err := range []error{err, second(read(dir))} {
		if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), ".yaml") {
			t.Errorf("a directory without manifests: %v", err)
		}
	}
	if _, err := read(""); err == nil || !strings.Contains(err.Error(), "the path is empty") {
		t.Errorf("no path: %v", err)
	}
	readme := filepath.Join(dir, "README.md")
	for text, there := range map[string]bool{
		"": false, "# nothing\n---\n": false, "---\nnull\n---\n~\n": false, "%YAML 1.2\n--- # x\n...\n---\n": false,
		"{apiVersion: v1, kind: List}": true, "words": true, "{": true, "\xff\xfex": true,
	} {
		if err := os.WriteFile(readme, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Input{Paths: []string{readme}}.Objects()
		_, _, piped := Input{Paths: []string{Stdin}, Texts: map[string][]byte{Stdin: []byte(text)}}.Objects()
		for _, err := range []error{err, second(read(readme)), piped} {
			if errors.Is(err, ErrNothing) == there || there && err != nil {
				t.Errorf("a file of another name, asked for by name, with %q: %v", text, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }
