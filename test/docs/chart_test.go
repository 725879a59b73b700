package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// chart renders the chart with values of a user's, as a release in a namespace.
func chart(t *testing.T, namespace, values string) (string, error) {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(edge.Root(), "bin", "helm"),
		"template", "gridmesh", filepath.Join(edge.Root(), "deploy/helm/gridmesh"), "--namespace", namespace, "--values", file)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Env = append(os.Environ(), "HOME="+home)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said.String())
	}
	return out.String(), nil
}

// byName are the objects of a stream of YAML as they are.
func byName(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var o unstructured.Unstructured
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if o.Object == nil {
			continue
		}
		name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if all[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		sortEnv(o.Object)
		all[name] = o.Object
	}
}

// sortEnv orders the environments in an object by name: a strategic merge puts
// its own first, and of ours none refers to another.
func sortEnv(in any) {
	switch v := in.(type) {
	case []any:
		for _, e := range v {
			sortEnv(e)
		}
	case map[string]any:
		if env, ok := v["env"].([]any); ok {
			slices.SortFunc(env, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		for _, e := range v {
			sortEnv(e)
		}
	}
}

// ownValues are those of a cluster, as deploy/ has them: the chart has no defaults.
func ownValues(t *testing.T, objects []object) string {
	t.Helper()
	server := find(t, objects, "ConfigMap", "gridmesh-apiserver").Data
	env := map[string]string{}
	for _, e := range find(t, objects, "DaemonSet", "gridmesh-dns").Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	return fmt.Sprintf("apiServer: {host: %s, port: %s}\nserviceCIDRs: [%q, %q]\npodCIDRs: [%q, %q]\nclusterDNS: %s\n", server["host"], server["port"],
		strings.Split(server["serviceCIDRs"], ",")[0], strings.Split(server["serviceCIDRs"], ",")[1], env["POD_CIDR"], env["POD_CIDR_2"], env["CLUSTER_DNS"])
}

// sameObjects fails where what Helm makes differs from what kustomize makes.
func sameObjects(t *testing.T, what, helm, kustomization string) {
	t.Helper()
	got, want := byName(t, helm), byName(t, kustomization)
	for name, w := range want {
		switch g := got[name]; {
		case g == nil:
			t.Errorf("%s: the chart has no %s", what, name)
		case !reflect.DeepEqual(g, w):
			mine, _ := json.MarshalIndent(g, "", " ")
			theirs, _ := json.MarshalIndent(w, "", " ")
			a, b := strings.Split(string(mine), "\n"), strings.Split(string(theirs), "\n")
			for i := range min(len(a), len(b)) {
				if a[i] != b[i] {
					t.Errorf("%s: %s: the chart has\n%s\nand the kustomization\n%s", what, name, strings.Join(a[max(0, i-5):i+1], "\n"), b[i])
					break
				}
			}
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s: the chart has %s, which the kustomization has not", what, name)
		}
	}
}

// The chart makes the objects of the kustomization, all and no others, and the
// components and patches of docs/install.md are values of it.
func TestChartIsTheKustomization(t *testing.T) {
	plain := kustomize(t, filepath.Join(edge.Root(), "deploy"))
	values := ownValues(t, decode(t, plain))
	for what, tc := range map[string]struct{ values, kustomization string }{
		"as it is":     {"", ""},
		"node by node": {"nodeSelector: {gridmesh.io/node: serve}\n", "components: [../deploy/node-by-node]\n"},
		"other images": {
			"images: {agent: registry.example/agent:v1, dns: 'registry.example:5000/dns:v2', envoy: 'registry.example/envoy@sha256:" + strings.Repeat("a", 64) + "'}\n",
			"images: [{name: gridmesh/agent, newName: registry.example/agent, newTag: v1}, {name: gridmesh/dns, newName: 'registry.example:5000/dns', newTag: v2}, " +
				"{name: envoyproxy/envoy, newName: registry.example/envoy, digest: 'sha256:" + strings.Repeat("a", 64) + "'}]\n",
		},
		"flags": {
			"datapath: envoy\nnetworkPolicies: refuse\nagentArgs: [--topology-keys=union]\n",
			patch("DaemonSet", "gridmesh-agent", `{op: add, path: /spec/template/spec/containers/0/args/-, value: --datapath=envoy}`,
				`{op: add, path: /spec/template/spec/containers/0/args/-, value: --network-policies=refuse}`,
				`{op: add, path: /spec/template/spec/containers/0/args/-, value: --topology-keys=union}`),
		},
		"resources": {
			"envoyHeapLimit: 900\nresources: {envoy: {limits: {memory: 1Gi}}, dns: {requests: {cpu: 1}}}\n",
			patch("DaemonSet", "gridmesh-envoy", `{op: replace, path: /spec/template/spec/containers/0/resources/limits/memory, value: 1Gi}`,
				`{op: replace, path: /spec/template/spec/initContainers/0/args/3, value: --envoy-heap-limit=900}`) +
				strings.TrimPrefix(patch("DaemonSet", "gridmesh-dns", `{op: replace, path: /spec/template/spec/containers/0/resources/requests/cpu, value: 1}`), "patches:\n"),
		},
		"a unit key": {
			"controller: {notOnNodesWith: [unit]}\n",
			patch("Deployment", "gridmesh-controller", `{op: add, path: /spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/-, value: {key: unit, operator: DoesNotExist}}`),
		},
		"domain and tolerations": {
			"clusterDomain: edge.example\ntolerations: [{key: a, operator: Equal, value: b}]\n",
			patch("DaemonSet", "gridmesh-(agent|envoy|dns)", `{op: replace, path: /spec/template/spec/tolerations, value: [{key: a, operator: Equal, value: b}]}`) +
				strings.TrimPrefix(patch("DaemonSet", "gridmesh-dns", `{op: replace, path: /spec/template/spec/containers/0/env/2/value, value: edge.example}`), "patches:\n"),
		},
	} {
		made, err := chart(t, "kube-system", values+tc.values)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		sameObjects(t, what, made, overlayText(t, kustomization+tc.kustomization))
	}
}

// What docs/install.md has for Helm makes what it has for kustomize.
func TestChartAsWritten(t *testing.T) {
	page := read(t, "docs/install.md")
	values := regexp.MustCompile("(?s)my-values.yaml <<'EOF'\n(.*?)    EOF\n").FindStringSubmatch(page)
	mine := regexp.MustCompile("(?s)kustomization.yaml <<'EOF'\n(.*?)EOF\n").FindStringSubmatch(page)
	if values == nil || mine == nil {
		t.Fatal("docs/install.md has no values, or no kustomization")
	}
	made, err := chart(t, "kube-system", regexp.MustCompile("(?m)^    ").ReplaceAllString(values[1], ""))
	if err != nil {
		t.Fatal(err)
	}
	sameObjects(t, "docs/install.md", made, overlayText(t, mine[1]))
}

// What Envoy's bootstrap goes by as the agent does is given to both, and Envoy is asked
// where it says that it serves; docs/install.md has the same for kustomize.
func TestChartGivesEnvoyTheAgentsFlags(t *testing.T) {
	values := ownValues(t, decode(t, kustomize(t, filepath.Join(edge.Root(), "deploy"))))
	both := []string{"--admin-socket=/run/gridmesh/a.sock", "--listen-port-base=16001", "--mark=0x4/0xc", "--xds-socket=/run/gridmesh/x.sock"}
	made, err := chart(t, "kube-system", values+"agentArgs: [--topology-keys=union, "+strings.Join(both, ", ")+"]\n")
	if err != nil {
		t.Fatal(err)
	}
	spec := find(t, decode(t, made), "DaemonSet", "gridmesh-envoy").Spec.Template.Spec
	if got := spec.InitContainers[0].Args[4:]; !slices.Equal(got, both) {
		t.Errorf("the bootstrap has %q, want %q", got, both)
	}
	block := regexp.MustCompile("(?m)^    - target: .*gridmesh-agent}\n(?:    .*\n)+").FindAllString(read(t, "docs/install.md"), -1)
	i := slices.IndexFunc(block, func(b string) bool { return strings.Contains(b, "--listen-port-base=16001") })
	if i < 0 {
		t.Fatalf("docs/install.md has no patch of both: %q", block)
	}
	if made, err = chart(t, "kube-system", values+"agentArgs: [--listen-port-base=16001]\n"); err != nil {
		t.Fatal(err)
	}
	sameObjects(t, "docs/install.md", made, overlayText(t, kustomization+"patches:\n"+block[i]))
}

// patch is a JSON patch of a kustomization.
func patch(kind, name string, ops ...string) string {
	text := fmt.Sprintf("patches:\n- target: {kind: %s, name: %s}\n  patch: |-\n", kind, name)
	for _, op := range ops {
		text += "    - " + op + "\n"
	}
	return text
}

// Without the controller there is none of its objects, and Helm makes the
// namespace where it is told to.
func TestChartLeavesOut(t *testing.T) {
	values := ownValues(t, decode(t, kustomize(t, filepath.Join(edge.Root(), "deploy"))))
	for what, tc := range map[string]struct {
		namespace, values string
		gone              []string
	}{
		"no controller": {"kube-system", "controller: {enabled: false}\n", []string{
			"ClusterRole /gridmesh-controller", "ClusterRole /gridmesh-metrics", "ClusterRoleBinding /gridmesh-controller", "Deployment gridmesh/gridmesh-controller",
			"Role gridmesh/gridmesh-controller", "RoleBinding gridmesh/gridmesh-controller", "ServiceAccount gridmesh/gridmesh-controller",
		}},
		"its own namespace": {"gridmesh", "", []string{"Namespace /gridmesh"}},
	} {
		made, err := chart(t, tc.namespace, values+tc.values)
		if err != nil {
			t.Fatal(err)
		}
		got := byName(t, made)
		var gone []string
		for name := range byName(t, kustomize(t, filepath.Join(edge.Root(), "deploy"))) {
			if got[name] == nil {
				gone = append(gone, name)
			}
		}
		if slices.Sort(gone); !slices.Equal(gone, tc.gone) {
			t.Errorf("%s: left out are %q", what, gone)
		}
	}
}

// A value that is missing, mistyped or of the wrong kind is refused, by its name.
func TestChartRefusesMistakes(t *testing.T) {
	values := ownValues(t, decode(t, kustomize(t, filepath.Join(edge.Root(), "deploy"))))
	without := func(name string) string {
		var left []string
		for line := range strings.Lines(values) {
			if !strings.HasPrefix(line, name+":") {
				left = append(left, line)
			}
		}
		return strings.Join(left, "")
	}
	for mistake, tc := range map[string]struct{ values, says string }{
		"none":                       {"", "host"},
		"no clusterDNS":              {without("clusterDNS"), "clusterDNS"},
		"no pods":                    {without("podCIDRs"), "podCIDRs"},
		"no services":                {without("serviceCIDRs"), "serviceCIDRs"},
		"a letter too many":          {values + "datapaths: auto\n", "datapaths"},
		"a wrong letter deeper":      {values + "images: {agnet: x:1}\n", "agnet"},
		"an unknown datapath":        {values + "datapath: ebpf\n", "datapath"},
		"an image without a tag":     {values + "images: {agent: registry.example:5000/agent}\n", "images/agent"},
		"a range that is an address": {without("podCIDRs") + "podCIDRs: [10.244.0.0]\n", "podCIDRs"},
		"a range of IPv4 beyond /32": {without("serviceCIDRs") + "serviceCIDRs: [10.96.0.0/33]\n", "serviceCIDRs"},
		"a range of no address":      {without("podCIDRs") + "podCIDRs: [10.244.0.300/16]\n", "podCIDRs"},
		"an address that is none":    {without("clusterDNS") + "clusterDNS: 10.96.0.300\n", "clusterDNS"},
		"three ranges":               {without("podCIDRs") + "podCIDRs: [10.244.0.0/16, 10.245.0.0/16, 10.246.0.0/16]\n", "podCIDRs"},
		"a URL":                      {without("apiServer") + "apiServer: {host: 'https://10.0.0.1'}\n", "apiServer/host"},
		"host and port in one":       {without("apiServer") + "apiServer: {host: '10.0.0.1:6443'}\n", "apiServer/host"},
		"a domain with its dot":      {values + "clusterDomain: cluster.local.\n", "clusterDomain"},
		"a flag without dashes":      {values + "agentArgs: [verbose]\n", "agentArgs"},
		"a limit that is no field":   {values + "resources: {dns: {limit: {memory: 1Gi}}}\n", "limit"},

		// What does not go together.
		"services where the pods are":    {without("serviceCIDRs") + "serviceCIDRs: [10.244.0.0/16]\n", "serviceCIDRs: 10.244.0.0/16 overlaps 10.244.0.0/16 of podCIDRs"},
		"services around the pods":       {without("serviceCIDRs") + "serviceCIDRs: [10.0.0.0/8]\n", "serviceCIDRs: 10.0.0.0/8 overlaps 10.244.0.0/16"},
		"services among the pods":        {without("serviceCIDRs") + "serviceCIDRs: [10.245.0.0/16, 10.244.7.0/25]\n", "serviceCIDRs: 10.244.7.0/25 overlaps"},
		"likewise of IPv6":               {without("serviceCIDRs") + "serviceCIDRs: ['fd00:244:0:96::/112']\n", "serviceCIDRs: fd00:244:0:96::/112 overlaps fd00:244::/32"},
		"an address that is too long":    {without("serviceCIDRs") + "serviceCIDRs: ['fd00:1:2:3:4:5:6:7:8/112']\n", "serviceCIDRs: fd00:1:2:3:4:5:6:7:8/112 is no range"},
		"services without their ::":      {without("serviceCIDRs") + "serviceCIDRs: ['fd00:96/112']\n", "serviceCIDRs: fd00:96/112 is no range"},
		"pods without theirs":            {without("podCIDRs") + "podCIDRs: ['fd00:244/32']\n", "podCIDRs: fd00:244/32 is no range"},
		"an API server without it":       {without("apiServer") + "apiServer: {host: 'fd00:1:'}\n", "apiServer.host: fd00:1: is no address"},
		"a DNS without it":               {without("clusterDNS") + "clusterDNS: 'fd00:a'\n", "clusterDNS: fd00:a is no address"},
		"two of them":                    {without("clusterDNS") + "clusterDNS: 'fd00::1::a'\n", "clusterDNS: fd00::1::a is no address"},
		"one colon too many":             {without("clusterDNS") + "clusterDNS: 'fd00:::a'\n", "clusterDNS: fd00:::a is no address"},
		"a group of five":                {without("clusterDNS") + "clusterDNS: 'fd00::12345'\n", "clusterDNS: fd00::12345 is no address"},
		":: that is of nothing":          {without("clusterDNS") + "clusterDNS: '1:2:3:4::5:6:7:8'\n", "clusterDNS: 1:2:3:4::5:6:7:8 is no address"},
		"bits beyond its length":         {without("serviceCIDRs") + "serviceCIDRs: [10.96.0.5/16]\n", "serviceCIDRs: 10.96.0.5/16 has bits beyond its length; write zeros there"},
		"of pods, the last of them":      {without("podCIDRs") + "podCIDRs: ['fd00:244::1/127']\n", "podCIDRs: fd00:244::1/127 has bits beyond its length"},
		"two ranges of IPv4":             {without("podCIDRs") + "podCIDRs: [10.244.0.0/16, 10.245.0.0/16]\n", "podCIDRs: 10.244.0.0/16 and 10.245.0.0/16 are of one family"},
		"two ranges of IPv6":             {without("podCIDRs") + "podCIDRs: ['fd00:1::/64', 'fd00:2::/64']\n", "are of one family"},
		"an API server at a ClusterIP":   {without("apiServer") + "apiServer: {host: 10.96.255.1}\n", "apiServer.host: 10.96.255.1 is in 10.96.0.0/16 of serviceCIDRs"},
		"likewise at one of IPv6":        {without("apiServer") + "apiServer: {host: 'FD00:0096::1'}\n", "apiServer.host: FD00:0096::1 is in fd00:96::/112 of serviceCIDRs"},
		"an API server at no address":    {without("apiServer") + "apiServer: {host: 10.0.300.1}\n", "apiServer.host: 10.0.300.1 is no address"},
		"more heap than Envoy may have":  {values + "envoyHeapLimit: 900\n", "envoyHeapLimit: 900 MiB are not below resources.envoy.limits.memory, 512Mi"},
		"as much":                        {values + "resources: {envoy: {limits: {memory: 448Mi}}}\n", "envoyHeapLimit: 448 MiB are not below"},
		"as much in bytes":               {values + "resources: {envoy: {limits: {memory: 469762048}}}\n", "envoyHeapLimit: 448 MiB are not below"},
		"as much by tens":                {values + "resources: {envoy: {limits: {memory: 0.46G}}}\n", "envoyHeapLimit: 448 MiB are not below"},
		"a memory of no unit":            {values + "resources: {envoy: {limits: {memory: 1GB}}}\n", "resources.envoy.limits.memory: 1GB is no quantity"},
		"a flag that does not exist":     {values + "agentArgs: [--topology-key=union]\n", "agentArgs: gridmesh-agent has no flag --topology-key; did you mean --topology-keys?"},
		"a flag like none":               {values + "agentArgs: [--x=--mark]\n", "agentArgs: gridmesh-agent has no flag --x (docs/agent.md lists them)"},
		"a flag and its value in two":    {values + "agentArgs: [--mark 0x4/0xc]\n", "agentArgs: --mark 0x4/0xc has no value; write both in one, as --mark=VALUE"},
		"a flag without its value":       {values + "agentArgs: [--mark]\n", "agentArgs: --mark has no value; write both in one, as --mark=VALUE"},
		"the second of several mistakes": {without("podCIDRs") + "podCIDRs: [10.244.0.0/16, 10.245.0.0/16]\nagentArgs: [--x]\n", "no flag --x"},
	} {
		if _, err := chart(t, "kube-system", tc.values); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", mistake, err)
		}
	}
}

// What only looks like a mistake is taken.
func TestChartTakesWhatFits(t *testing.T) {
	values := ownValues(t, decode(t, kustomize(t, filepath.Join(edge.Root(), "deploy"))))
	for what, text := range map[string]string{
		"neighbours":              "serviceCIDRs: [10.243.0.0/16, 'fd00:245::/112']\n",
		"no ranges of Services":   "serviceCIDRs: []\n",
		"one range of pods":       "podCIDRs: ['fd00:244::/32']\n",
		"an address of IPv6":      "apiServer: {host: 'fd00:95::1'}\nserviceCIDRs: [10.96.0.0/16, 'fd00:96::/112']\n",
		"a whole address of IPv6": "clusterDNS: 'fd00:96:0:0:0:0:0:A'\n",
		"an address of a prefix":  "podCIDRs: ['::/0']\nserviceCIDRs: []\n",
		"a name of digits":        "apiServer: {host: 10-96-0-1.example}\n",
		"a limit in bytes":        "resources: {envoy: {limits: {memory: 469762049}}}\n",
		"a limit with a fraction": "envoyHeapLimit: 1535\nresources: {envoy: {limits: {memory: 1.5Gi}}}\n",
		"a limit with exponent":   "resources: {envoy: {limits: {memory: 5e8}}}\n",
		"no limit":                "envoyHeapLimit: 4096\nresources: {envoy: {limits: {memory: null}}}\n",
		"a switch":                "agentArgs: [--verbose, --close-on-move=false]\n",
	} {
		for line := range strings.Lines(values) { // a key is there once
			if key, _, _ := strings.Cut(line, ":"); !strings.Contains("\n"+text, "\n"+key+":") {
				text += line
			}
		}
		if _, err := chart(t, "kube-system", text); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The chart knows the flags of the agent, all and no others, and which need no value.
func TestChartKnowsTheAgentsFlags(t *testing.T) {
	help, err := exec.Command(filepath.Join(edge.Root(), "bin", "gridmesh-agent"), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, f := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)( \w+)? {2,}\S`).FindAllStringSubmatch(string(help), -1) {
		kind := "flags"
		if f[2] == "" {
			kind = "switches"
		}
		if f[1] != "help" && f[1] != "version" {
			want[kind] = append(want[kind], f[1])
		}
	}
	text := read(t, "deploy/helm/gridmesh/templates/_mistakes.tpl")
	for kind, names := range want {
		list := regexp.MustCompile(`(?s)define "gridmesh.` + kind + `" -}}(.*?){{- end`).FindStringSubmatch(text)
		if list == nil {
			t.Fatalf("there is no list gridmesh.%s", kind)
		}
		has := strings.Fields(list[1])
		slices.Sort(has)
		if slices.Sort(names); !slices.Equal(has, names) {
			t.Errorf("gridmesh.%s of the chart are %q, the agent's are %q", kind, has, names)
		}
	}
	if len(want) != 2 {
		t.Errorf("the agent's help has %q", want)
	}
}
