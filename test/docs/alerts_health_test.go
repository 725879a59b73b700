package docs

import (
	"regexp"
	"strings"
	"testing"
)

// Node health and its webhook are found by the names of their ports, and the rights that
// Prometheus has for the controller let it ask the webhook.
func TestHealthIsScraped(t *testing.T) {
	watched := overlay(t, kustomization+"components: [../deploy/monitoring, ../deploy/health, ../deploy/admission, ../deploy/monitoring/health]\n")
	c := find(t, watched, "DaemonSet", "gridmesh-health").Spec.Template.Spec.Containers[0]
	if len(c.Ports) != 1 || c.Ports[0].Name != "metrics" {
		t.Errorf("gridmesh-health has ports %v, flags %q", c.Ports, c.Args)
	}
	atNodesAddress(t, metricsFlag(t, watched, "gridmesh-health"), "$(METRICS_IP)", "10362")
	find(t, watched, "PodMonitor", "gridmesh-health")
	find(t, watched, "ServiceMonitor", "gridmesh-admission")
	jobs := map[string]bool{"gridmesh/gridmesh-health": true, find(t, watched, "Service", "gridmesh-admission-metrics").Name: true}
	for _, r := range find(t, watched, "PrometheusRule", "gridmesh-health").Spec.Groups[0].Rules {
		for _, m := range regexp.MustCompile(`job="([^"]+)"`).FindAllStringSubmatch(r.Expr, -1) {
			if !jobs[m[1]] {
				t.Errorf("%s asks for the job %s, which nothing makes", r.Alert, m[1])
			}
		}
	}
	for job := range jobs {
		if _, ok := scraped(t)[job]; !ok {
			t.Errorf("deploy/metrics/scrape.yaml has no job %s", job)
		}
	}
}

// alert is the expression of an alert of node health.
func alert(t *testing.T, name string) string {
	t.Helper()
	for _, r := range find(t, decode(t, read(t, "deploy/monitoring/health/rules.yaml")), "PrometheusRule", "gridmesh-health").Spec.Groups[0].Rules {
		if r.Alert == name {
			return r.Expr
		}
	}
	t.Fatalf("there is no alert %s", name)
	return ""
}

// What the controller shows of its own troubles is told, and not its log alone.
func TestTroublesOfNodeHealthAreTold(t *testing.T) {
	for name, series := range map[string]string{
		"GridmeshHealthDeaf":       "gridmesh_health_watch_faults",
		"GridmeshPoliciesNotKept":  `gridmesh_health_policies{state="failed"}`,
		"GridmeshPoliciesUnserved": `gridmesh_health_policies{state="unserved"}`,
	} {
		if expr := alert(t, name); !strings.Contains(expr, series) {
			t.Errorf("%s does not ask for %s: %s", name, series, expr)
		}
	}
}
