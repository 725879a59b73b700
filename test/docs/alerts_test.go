package docs

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// The component lets Prometheus reach the metrics of all three, and brings what
// asks for them.
func TestMonitoringReachesMetrics(t *testing.T) {
	watched := overlay(t, kustomization+"components: [../deploy/node-by-node, ../deploy/monitoring]\n")
	for name, port := range map[string]int32{"gridmesh-agent": 10249, "gridmesh-dns": 9253} {
		c := find(t, watched, "DaemonSet", name).Spec.Template.Spec.Containers[0]
		if len(c.Ports) != 1 || c.Ports[0].Name != "metrics" || c.Ports[0].ContainerPort != port {
			t.Errorf("%s has ports %v", name, c.Ports)
		}
		env := c.Env[len(c.Env)-1]
		if env.Name != "METRICS_IP" || env.Value != "" || env.ValueFrom == nil || env.ValueFrom.FieldRef.FieldPath != "status.hostIP" {
			t.Errorf("%s: METRICS_IP is %+v", name, env)
		}
		find(t, watched, "PodMonitor", name)
	}
	agent := find(t, watched, "DaemonSet", "gridmesh-agent").Spec.Template.Spec.Containers[0]
	if !slices.Contains(agent.Args, "--metrics-bind-address=$(METRICS_IP):10249") {
		t.Errorf("the agent's flags are %q", agent.Args)
	}
	find(t, watched, "ServiceMonitor", "gridmesh-controller")
	find(t, watched, "ClusterRoleBinding", "gridmesh-metrics")
	named := 0
	for _, p := range find(t, watched, "Deployment", "gridmesh-controller").Spec.Template.Spec.Containers[0].Ports {
		if p.Name == "metrics" && p.ContainerPort == 10359 {
			named++
		}
	}
	if named != 1 {
		t.Errorf("the controller has %d ports metrics", named)
	}
	if find(t, watched, "ConfigMap", "gridmesh-dashboard").Data["gridmesh.json"] == "" {
		t.Error("the dashboard is empty")
	}
}

// shown are the metrics that the programs' code names, as they are scraped.
func shown(t *testing.T) map[string]bool {
	t.Helper()
	metrics := maps.Clone(metricsInCode(t))
	metrics["up"] = true // Prometheus' own
	found := regexp.MustCompile(`(?:Name: |pluginName, )"([a-z_]+)"`).FindAllStringSubmatch(read(t, "dnsplugin/metrics.go"), -1)
	if len(found) < 6 {
		t.Fatalf("only %d metrics of the DNS were found", len(found))
	}
	for _, m := range found {
		metrics["coredns_grid_"+m[1]] = true
	}
	for name := range maps.Clone(metrics) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} { // of histograms
			if strings.HasSuffix(name, "_seconds") {
				metrics[name+suffix] = true
			}
		}
	}
	return metrics
}

// Every alert names metrics that exist, in an expression that can be read, and
// has a section of its own in docs/alerts.md, which has no others.
func TestAlertsHaveMetricsAndRunbooks(t *testing.T) {
	metrics := shown(t)
	var alerts []string
	for _, g := range find(t, decode(t, read(t, "deploy/monitoring/rules.yaml")), "PrometheusRule", "gridmesh").Spec.Groups {
		for _, r := range g.Rules {
			alerts = append(alerts, r.Alert)
			checkExpr(t, r.Alert, r.Expr, metrics)
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: for %q: %v", r.Alert, r.For, err)
			}
			if r.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
				t.Errorf("%s: summary %q, severity %q", r.Alert, r.Annotations["summary"], r.Labels["severity"])
			}
			if want := "/docs/alerts.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], want) {
				t.Errorf("%s: runbook_url %q does not end with %s", r.Alert, r.Annotations["runbook_url"], want)
			}
			text := section(t, "docs/alerts.md", r.Alert)
			if !strings.Contains(text, "**Means**") || !strings.Contains(text, "**Do**") {
				t.Errorf("docs/alerts.md does not say what %s means, and what to do", r.Alert)
			}
		}
	}
	if len(alerts) < 10 {
		t.Fatalf("only %d alerts were found", len(alerts))
	}
	for _, m := range regexp.MustCompile(`(?m)^## (Gridmesh\w+)$`).FindAllStringSubmatch(read(t, "docs/alerts.md"), -1) {
		if !slices.Contains(alerts, m[1]) {
			t.Errorf("docs/alerts.md tells of %s, which is no alert", m[1])
		}
	}
}

// Every kind of finding is told where the alert about findings is.
func TestFindingsAreTold(t *testing.T) {
	text, found := section(t, "docs/alerts.md", "GridmeshNodeUnfit"), 0
	for _, dir := range []string{"capture", "node"} {
		files, err := filepath.Glob(filepath.Join(edge.Root(), dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			for _, m := range regexp.MustCompile(`FindingKind = "([a-z-]+)"`).FindAllStringSubmatch(read(t, filepath.Join(dir, filepath.Base(path))), -1) {
				if found++; !strings.Contains(text, "`"+m[1]+"`") {
					t.Errorf("docs/alerts.md, GridmeshNodeUnfit, does not tell of the kind %s", m[1])
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d kinds were found", found)
	}
}

// The page says what the limit that deploy/ sets comes to: a connection for each
// 40 KiB.
func TestEnvoysBoundIsTold(t *testing.T) {
	number := func(path, pattern string) (n int) {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(read(t, path))
		if m == nil {
			t.Fatalf("%s has no %s", path, pattern)
		}
		n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	most := number("deploy/envoy.yaml", `--envoy-heap-limit=(\d+)`) << 10 / 40
	if told := number("docs/alerts.md", `as\n.deploy/envoy.yaml. has it, ([\d,]+)`); told != most {
		t.Errorf("docs/alerts.md says that Envoy refuses them at %d; it is at %d", told, most)
	}
}

// Every panel of the dashboard shows metrics that exist.
func TestDashboardHasMetrics(t *testing.T) {
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/monitoring/dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	metrics, seen := shown(t), map[int]bool{}
	for _, p := range board.Panels {
		if seen[p.ID] || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d %q: its number is not its own, or it has no title or nothing to show", p.ID, p.Title)
		}
		seen[p.ID] = true
		for _, target := range p.Targets {
			checkExpr(t, p.Title, target.Expr, metrics)
		}
	}
	for _, v := range board.Templating.List {
		if metric, ok := strings.CutPrefix(v.Query, "label_values("); ok && !metrics[strings.Split(metric, ",")[0]] {
			t.Errorf("variable %s asks for %s", v.Name, metric)
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d panels were found", len(seen))
	}
}

// words of PromQL that the expressions here may use.
var words = strings.Fields("by sum max min count rate increase time vector or and histogram_quantile")

var (
	quotedText = regexp.MustCompile(`"[^"]*"`)
	matchers   = regexp.MustCompile(`\{([a-z_]+(=|!=|=~|!~)"",?)*\}`)
	labelList  = regexp.MustCompile(`\bby \([a-z_]+(, [a-z_]+)*\)`)
	window     = regexp.MustCompile(`\[\d+[smhd]\]`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	arithmetic = regexp.MustCompile(`^[\s()\d.,*/+<>=!-]*$`)
)

// checkExpr is no parser: an expression is taken apart into what these use of
// PromQL, and nothing may be left over.
func checkExpr(t *testing.T, where, expr string, metrics map[string]bool) {
	t.Helper()
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.TrimSpace(expr) == "" {
		t.Errorf("%s: unbalanced: %s", where, expr)
	}
	rest := quotedText.ReplaceAllString(expr, `""`)
	rest = matchers.ReplaceAllString(rest, "")
	rest = labelList.ReplaceAllString(rest, "")
	rest = window.ReplaceAllString(rest, "")
	named := 0
	for _, name := range identifier.FindAllString(rest, -1) {
		switch {
		case metrics[name]:
			named++
		case !slices.Contains(words, name):
			t.Errorf("%s names %s, which nothing exports: %s", where, name, expr)
		}
	}
	if rest = identifier.ReplaceAllString(rest, ""); named == 0 || !arithmetic.MatchString(rest) {
		t.Errorf("%s: cannot be read (%q is left): %s", where, rest, expr)
	}
}
