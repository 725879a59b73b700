package docs

import (
	"encoding/json"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The components let Prometheus reach the metrics of all three and find where
// they are; one of them knows nothing of the operator's kinds, the other brings
// what asks.
func TestMonitoringReachesMetrics(t *testing.T) {
	bare := overlay(t, kustomization+"components: [../deploy/metrics]\n")
	wantMetrics(t, bare)
	for _, o := range bare {
		if strings.HasPrefix(o.APIVersion, "monitoring.coreos.com/") {
			t.Errorf("without the operator there is %s %s", o.Kind, o.Name)
		}
	}
	watched := overlay(t, kustomization+"components: [../deploy/node-by-node, ../deploy/monitoring]\n")
	wantMetrics(t, watched)
	for _, name := range []string{"gridmesh-agent", "gridmesh-dns"} {
		find(t, watched, "PodMonitor", name)
	}
	find(t, watched, "ServiceMonitor", "gridmesh-controller")
	if find(t, watched, "ConfigMap", "gridmesh-dashboard").Data["gridmesh.json"] == "" {
		t.Error("the dashboard is empty")
	}
}

func wantMetrics(t *testing.T, watched []object) {
	t.Helper()
	for name, port := range map[string]int32{"gridmesh-agent": 10249, "gridmesh-dns": 9253} {
		c := find(t, watched, "DaemonSet", name).Spec.Template.Spec.Containers[0]
		if len(c.Ports) != 1 || c.Ports[0].Name != "metrics" || c.Ports[0].ContainerPort != port {
			t.Errorf("%s has ports %v", name, c.Ports)
		}
		i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "METRICS_IP" })
		if i < 0 || c.Env[i].Value != "" || c.Env[i].ValueFrom == nil || c.Env[i].ValueFrom.FieldRef.FieldPath != "status.hostIP" {
			t.Errorf("%s: METRICS_IP is not the node's: %+v", name, c.Env)
		}
	}
	atNodesAddress(t, metricsFlag(t, watched, "gridmesh-agent"), "$(METRICS_IP)", "10249")
	at := regexp.MustCompile(`(?m)^\s+prometheus (\S+)$`).FindStringSubmatch(find(t, watched, "ConfigMap", "gridmesh-dns").Data["Corefile"])
	if at == nil {
		t.Fatal("the Corefile has no prometheus")
	}
	atNodesAddress(t, at[1], "{$METRICS_IP}", "9253")
	named := 0
	for _, p := range find(t, watched, "Deployment", "gridmesh-controller").Spec.Template.Spec.Containers[0].Ports {
		if p.Name == "metrics" && p.ContainerPort == 10359 {
			named++
		}
	}
	if named != 1 {
		t.Errorf("the controller has %d ports metrics", named)
	}
	reads := find(t, watched, "ClusterRoleBinding", "gridmesh-metrics").Subjects
	lists := find(t, watched, "RoleBinding", "gridmesh-metrics")
	if lists.Namespace != "gridmesh" || len(reads) != 1 || !slices.Equal(reads, lists.Subjects) {
		t.Errorf("%v reads the controller's metrics, and %v lists targets in %s", reads, lists.Subjects, lists.Namespace)
	}
	for _, r := range find(t, watched, "Role", "gridmesh-metrics").Rules {
		if !slices.Equal(r.Verbs, []string{"get", "list", "watch"}) {
			t.Errorf("of %v Prometheus may %v", r.Resources, r.Verbs)
		}
	}
}

// metricsFlag is where a DaemonSet's program has its metrics.
func metricsFlag(t *testing.T, watched []object, name string) string {
	t.Helper()
	args := find(t, watched, "DaemonSet", name).Spec.Template.Spec.Containers[0].Args
	for _, a := range args {
		if at, ok := strings.CutPrefix(a, "--metrics-bind-address="); ok {
			return at
		}
	}
	t.Fatalf("%s has no metrics: %q", name, args)
	return ""
}

// atNodesAddress wants an address and a port with the variable in it, of whichever family
// the node's first address is.
func atNodesAddress(t *testing.T, at, variable, wantPort string) {
	t.Helper()
	for _, ip := range []string{"10.0.0.1", "fd00::5"} {
		if host, port, err := net.SplitHostPort(strings.ReplaceAll(at, variable, ip)); err != nil || host != ip || port != wantPort {
			t.Errorf("%s on the node %s: %q, %q, %v", at, ip, host, port, err)
		}
	}
}

// The patch of the page gives another account both rights, and every monitor and
// rule the label that it asks for.
func TestAnotherPrometheusIsPatched(t *testing.T) {
	blocks := fence.FindAllStringSubmatch(read(t, "docs/alerts.md"), -1)
	i := slices.IndexFunc(blocks, func(b []string) bool { return strings.HasPrefix(b[2], "patches:\n") })
	if i < 0 {
		t.Fatal("docs/alerts.md has no patch")
	}
	labelled := 0
	for _, o := range overlay(t, kustomization+"components: [../deploy/monitoring]\n"+blocks[i][2]) {
		switch {
		case strings.HasSuffix(o.Kind, "RoleBinding") && o.Name == "gridmesh-metrics":
			if o.Subjects[0].Name != "prom-kube-prometheus-stack-prometheus" || o.Subjects[0].Namespace != "observability" {
				t.Errorf("%s is for %v", o.Kind, o.Subjects)
			}
		case strings.HasPrefix(o.APIVersion, "monitoring.coreos.com/"):
			if labelled++; o.Labels["release"] != "prom" {
				t.Errorf("%s %s has labels %v", o.Kind, o.Name, o.Labels)
			}
		}
	}
	if labelled != 4 {
		t.Errorf("%d objects are for the operator", labelled)
	}
}

// shown are the metrics that the programs' code names, as they are scraped.
func shown(t *testing.T) map[string]bool {
	t.Helper()
	metrics := maps.Clone(metricsInCode(t))
	metrics["up"] = true // Prometheus' own
	maps.Copy(metrics, metricsOfDNS(t))
	for name := range maps.Clone(metrics) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} { // of histograms
			if strings.HasSuffix(name, "_seconds") {
				metrics[name+suffix] = true
			}
		}
	}
	return metrics
}

// allGroups are those of both files of rules.
func allGroups(t *testing.T) []ruleGroup {
	t.Helper()
	return slices.Concat(find(t, decode(t, read(t, "deploy/monitoring/rules.yaml")), "PrometheusRule", "gridmesh").Spec.Groups,
		find(t, decode(t, read(t, "deploy/monitoring/health/rules.yaml")), "PrometheusRule", "gridmesh-health").Spec.Groups)
}

// Every alert names metrics that exist, in an expression that can be read, and
// has a section of its own in docs/alerts.md, which has no others.
func TestAlertsHaveMetricsAndRunbooks(t *testing.T) {
	metrics := shown(t)
	var alerts []string
	for _, g := range allGroups(t) {
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

// Every kind of finding is an alert's, and told where that alert is: one that wakes
// at once where connections fail, the other for all that is not named there.
func TestFindingsAreTold(t *testing.T) {
	rules := map[string]rule{}
	for _, g := range find(t, decode(t, read(t, "deploy/monitoring/rules.yaml")), "PrometheusRule", "gridmesh").Spec.Groups {
		for _, r := range g.Rules {
			rules[r.Alert] = r
		}
	}
	named := regexp.MustCompile(`gridmesh_node_findings\{kind=~"([^"]+)"\}`).FindStringSubmatch(rules["GridmeshNodeFailing"].Expr)
	if named == nil || !strings.Contains(rules["GridmeshNodeUnfit"].Expr, `gridmesh_node_findings{kind!~"`+named[1]+`"}`) {
		t.Fatalf("kinds are left out, or two alerts': %s; %s", rules["GridmeshNodeFailing"].Expr, rules["GridmeshNodeUnfit"].Expr)
	}
	critical, found := strings.Split(named[1], "|"), map[string]bool{}
	kind := regexp.MustCompile(`\bFindingKind\s*=\s*"([^"]+)"`)
	eachFile(t, func(path, code string) {
		for _, m := range kind.FindAllStringSubmatch(code, -1) {
			found[m[1]] = true
			at, not := "GridmeshNodeUnfit", "GridmeshNodeFailing"
			if slices.Contains(critical, m[1]) {
				at, not = not, at
			}
			if tick := "`" + m[1] + "`"; !strings.Contains(section(t, "docs/alerts.md", at), tick) || strings.Contains(section(t, "docs/alerts.md", not), tick+" (") {
				t.Errorf("docs/alerts.md tells of the kind %s (%s) elsewhere than below %s", m[1], path, at)
			}
		}
	})
	for _, k := range critical {
		if !found[k] {
			t.Errorf("GridmeshNodeFailing asks for the kind %s, which there is not", k)
		}
	}
	if len(found) < 6 {
		t.Errorf("only %d kinds were found", len(found))
	}
}

// Where clients are refused somebody is woken, and the page says which alerts about
// connections may wait all the same.
func TestSeverityIsTold(t *testing.T) {
	text, failing := read(t, "docs/alerts.md"), regexp.MustCompile(`\b(refuse[sd]?|fails?|is dark|end until)\b`)
	_, waits, _ := strings.Cut(text, "**What can wait.**")
	waits, _, _ = strings.Cut(waits, "\n\n")
	for _, g := range find(t, decode(t, read(t, "deploy/monitoring/rules.yaml")), "PrometheusRule", "gridmesh").Spec.Groups {
		if g.Name != "gridmesh-node" {
			continue
		}
		for _, r := range g.Rules {
			means, _, _ := strings.Cut(section(t, "docs/alerts.md", r.Alert), "**Do**")
			if failing.MatchString(means) && r.Labels["severity"] != "critical" && !strings.Contains(waits, r.Alert) {
				t.Errorf("docs/alerts.md says of %s what fails (%q), and it is no critical one, nor told as one that can wait", r.Alert, failing.FindString(means))
			}
		}
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

// A mistake in an object is seen by every node: what alerts about objects of the
// cluster, or its API server's word, is no alert a node.
func TestOneMistakeIsOneAlert(t *testing.T) {
	of := map[string]string{"gridmesh_problems": "max(", "gridmesh_feed_held_total": "count by (watch) ("}
	for _, g := range find(t, decode(t, read(t, "deploy/monitoring/rules.yaml")), "PrometheusRule", "gridmesh").Spec.Groups {
		for _, r := range g.Rules {
			for metric, aggregated := range of {
				if !strings.Contains(r.Expr, metric) {
					continue
				}
				delete(of, metric)
				if !strings.HasPrefix(r.Expr, aggregated) || strings.Contains(r.Annotations["summary"], "$labels.node") {
					t.Errorf("%s fires once a node: %s: %s", r.Alert, r.Expr, r.Annotations["summary"])
				}
			}
		}
	}
	if len(of) > 0 {
		t.Errorf("no alert asks for %v", of)
	}
}

// Every job that alerts name is one that a monitor of the component makes, and
// one without targets is an alert itself.
func TestJobsAreScraped(t *testing.T) {
	jobs, missed := map[string]bool{}, ""
	for _, o := range decode(t, read(t, "deploy/monitoring/monitors.yaml")) {
		switch o.Kind {
		case "PodMonitor":
			jobs[o.Namespace+"/"+o.Name] = true
		case "Service":
			jobs[o.Name] = true // that of a ServiceMonitor
		}
	}
	for _, g := range find(t, decode(t, read(t, "deploy/monitoring/rules.yaml")), "PrometheusRule", "gridmesh").Spec.Groups {
		for _, r := range g.Rules {
			if r.Alert == "GridmeshNotScraped" {
				missed = r.Expr
			}
			for _, m := range regexp.MustCompile(`job="([^"]+)"`).FindAllStringSubmatch(r.Expr, -1) {
				if !jobs[m[1]] {
					t.Errorf("%s asks for the job %s, which nothing makes", r.Alert, m[1])
				}
			}
		}
	}
	for job := range jobs {
		if !strings.Contains(missed, `absent(up{job="`+job+`"})`) {
			t.Errorf("nothing is said where %s has no targets", job)
		}
		if _, ok := scraped(t)[job]; !ok {
			t.Errorf("deploy/metrics/scrape.yaml has no job %s", job)
		}
	}
	if len(jobs) != 3 {
		t.Errorf("the monitors make %v", jobs)
	}
}

// words of PromQL that the expressions here may use.
var words = strings.Fields("absent by without sum max min count on rate increase time unless vector or and histogram_quantile")

var (
	quotedText = regexp.MustCompile(`"[^"]*"`)
	matchers   = regexp.MustCompile(`\{([a-z_]+(=|!=|=~|!~)"",?)*\}`)
	labelList  = regexp.MustCompile(`\b(by|without|on) \([a-z_]+(, [a-z_]+)*\)`)
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
