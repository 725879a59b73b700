// Package docs holds the documentation to what the programs are.
package docs

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(edge.Root(), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages are the README and every page of docs/.
func pages(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(edge.Root(), "docs", "*.md"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	found := []string{"README.md"}
	for _, path := range list {
		found = append(found, "docs/"+filepath.Base(path))
	}
	return found
}

var fence = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

// Every line of a page that runs `gridmesh` on the examples runs as it stands there.
func TestSnippetsRun(t *testing.T) {
	ran := 0
	for _, page := range pages(t) {
		for _, block := range fence.FindAllStringSubmatch(read(t, page), -1) {
			if block[1] != "sh" {
				continue
			}
			for line := range strings.Lines(block[2]) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
				args := strings.Fields(line)
				if len(args) == 0 || args[0] != "gridmesh" || !strings.Contains(line, "-f examples/") {
					continue
				}
				cmd := exec.Command(filepath.Join(edge.Root(), "bin", "gridmesh"), args[1:]...)
				cmd.Dir = edge.Root()
				out, err := cmd.CombinedOutput()
				if err != nil || len(out) == 0 {
					t.Errorf("%s: %q: %v\n%s", page, line, err, out)
				}
				if strings.Contains(string(out), "is no pod of this node") {
					t.Errorf("%s: %q: its client is nobody; the ordinary case is a pod of the node\n%s", page, line, out)
				}
				ran++
			}
		}
	}
	if ran < 3 {
		t.Errorf("only %d snippets were found", ran)
	}
}

// foreign are flags of programs that are not ours.
var foreign = []string{
	"--disable-hot-restart", "--concurrency", "--cleanup", // envoy, kube-proxy
	"--drain-time-s",
	"--label", "--latest", "--now", // crictl, systemctl
	"--cascade", "--ignore-daemonsets", "--ignore-not-found", "--delete-emptydir-data", "--overwrite", "--patch-file", "--type", "--field-selector", "--for", "--timeout",
	"--from-literal", "--tail", "--force", "--attach", "--profile", "--image", "--all", "--minify", "--raw", "--flatten", "--validate", "--restart", "--rm", "--overrides", // kubectl
	"--service-cluster-ip-range", "--service-node-port-range", "--cluster-cidr", "--node-ip", "--node-monitor-grace-period", // the control plane's, the kubelet's
	"--apiserver-cert-extra-sans",                                            // kubeadm
	"--disable-kube-proxy", "--tls-san", "--lb-server-port", "--cluster-dns", // k3s
	"--privileged",                    // who runs containers
	"--install", "--values", "--wait", // helm
	"--adminssion-control-listen-addr", "--admission-control-server-cert", "--admission-control-server-key", "--kubeconfigpath", "--masterurl", "--always-reachable", // SuperEdge's
}

// Every flag that a page names exists, and every flag of the agent is on its page.
func TestFlagsExist(t *testing.T) {
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	known := slices.Clone(foreign)
	for _, args := range [][]string{
		{"gridmesh-agent", "--help"},
		{"gridmesh-agent", "bootstrap", "--help"},
		{"gridmesh-agent", "cleanup", "--help"},
		{"gridmesh-agent", "status", "--help"},
		{"gridmesh", "view", "--help"},
		{"gridmesh", "xds", "--help"},
		{"gridmesh", "trace", "--help"},
		{"gridmesh", "dns", "--help"},
		{"gridmesh", "grid", "plan", "--help"},
		{"gridmesh", "grid", "units", "--help"},
		{"gridmesh", "grid", "rollback", "--help"},
		{"gridmesh", "node", "migrate", "--help"},
		{"gridmesh", "health", "--help"},
		{"gridmesh-controller", "--help"},
		{"gridmesh-admission", "--help"},
		{"gridmesh-health", "--help"},
		{"gridmesh-health", "status", "--help"},
		{"lab", "up", "--help"},
		{"lab", "demo", "--help"},
		{"lab", "bench-changes", "--help"},
	} {
		out, err := exec.Command(filepath.Join(edge.Root(), "bin", args[0]), args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		known = append(known, flag.FindAllString(string(out), -1)...)
	}
	for _, page := range pages(t) {
		for _, name := range flag.FindAllString(read(t, page), -1) {
			if !slices.Contains(known, strings.TrimSuffix(name, "-")) {
				t.Errorf("%s names %s, which no program has", page, name)
			}
		}
	}
}

var made = regexp.MustCompile(`(?:Name:\s+|vec\(|NewDesc\(|pluginName,\s+)"([a-z0-9_]+)"`)

// namedIn are the names of what a file makes metrics of, however gofmt sets them.
func namedIn(text string) (names []string) {
	for _, m := range made.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

func TestMetricsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		`prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_a", Help: "A."})`:        "gridmesh_a",
		"prometheus.GaugeOpts{\n\tName:      \"gridmesh_a\",\n\tSubsystem: pluginName,\n}": "gridmesh_a",
		`vec("gridmesh_a", "A.")`:                          "gridmesh_a",
		`prometheus.NewDesc("gridmesh_a", "A.", nil, nil)`: "gridmesh_a",
		`prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "age"), "A.", nil)`: "age",
		`prometheus.GaugeOpts{Name: "gridmesh_ipv6_a"}`:                                              "gridmesh_ipv6_a",
		`Help: "gridmesh_a"`: "",
	} {
		if got := strings.Join(namedIn(text), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if want != "" && strings.HasPrefix(want, "gridmesh_") && metricName.FindString("`"+want+"{kind}`") != want {
			t.Errorf("a page that explains %s is not seen to", want)
		}
	}
}

// eachFile shows every file of the programs' code, tests left out.
func eachFile(t *testing.T, show func(path, code string)) {
	t.Helper()
	err := filepath.WalkDir(edge.Root(), func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "test" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		show(strings.TrimPrefix(path, edge.Root()+"/"), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// metricsInCode are those that the programs' code names as a whole.
func metricsInCode(t *testing.T) map[string]bool {
	t.Helper()
	inCode := map[string]bool{}
	eachFile(t, func(_, code string) {
		for _, name := range namedIn(code) {
			if metricName.MatchString(name) {
				inCode[name] = true
			}
		}
	})
	if len(inCode) < 10 {
		t.Fatalf("only %d metrics were found in the code: %v", len(inCode), inCode)
	}
	return inCode
}

// metricsOfDNS are the plugins', in CoreDNS's way of naming them.
func metricsOfDNS(t *testing.T) map[string]bool {
	t.Helper()
	metrics := map[string]bool{}
	for prefix, file := range map[string]string{"coredns_grid_": "dnsplugin/metrics.go", "coredns_nodelocal_": "dnsplugin/nodelocal/others.go"} {
		for _, name := range namedIn(read(t, file)) {
			metrics[prefix+name] = true
		}
	}
	if len(metrics) < 7 {
		t.Fatalf("only %d metrics of the DNS were found", len(metrics))
	}
	return metrics
}

var metricName = regexp.MustCompile(`\b(?:gridmesh|kubeproxy|coredns_grid|coredns_nodelocal)_[a-z0-9_]+\b`)

// The page of each program has all of its metrics, and neither these nor the
// rooms' READMEs have one that nothing exports.
func TestMetricsAreDocumented(t *testing.T) {
	inCode := metricsInCode(t)
	maps.Copy(inCode, metricsOfDNS(t))
	explained := map[string]bool{}
	pages := map[string]bool{
		"docs/agent.md": true, "docs/grids.md": true, "docs/admission.md": true, "dnsplugin/README.md": true, "dnsplugin/nodelocal/README.md": true,
		"health/README.md": true, "health/check/README.md": true, "health/peer/README.md": true,
	}
	for _, room := range []string{"node", "grid", "admission", "xds", "capture", "kube", "internal"} {
		pages[room+"/README.md"] = false
	}
	for page, whole := range pages {
		for _, metric := range metricName.FindAllString(read(t, page), -1) {
			if metric == "gridmesh_kernel" || metric == "gridmesh_status_check" { // a table of nftables; the page's own shell
				continue
			}
			if !inCode[metric] {
				t.Errorf("%s explains %s, which nothing exports", page, metric)
			}
			explained[metric] = explained[metric] || whole
		}
	}
	for metric := range inCode {
		if !explained[metric] {
			t.Errorf("no page explains %s", metric)
		}
	}
}
