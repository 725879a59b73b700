package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// scrapeConfig is what is looked at of a job of Prometheus.
type scrapeConfig struct {
	Job     string           `json:"job_name"`
	Honor   bool             `json:"honor_labels"`
	Scheme  string           `json:"scheme"`
	Auth    map[string]any   `json:"authorization"`
	TLS     map[string]any   `json:"tls_config"`
	Found   []map[string]any `json:"kubernetes_sd_configs"`
	Relabel []struct {
		From    []string `json:"source_labels"`
		Regex   string   `json:"regex"`
		Action  string   `json:"action"`
		To      string   `json:"target_label"`
		Replace string   `json:"replacement"`
	} `json:"relabel_configs"`
}

// scraped are the jobs of the file for a Prometheus without its operator.
func scraped(t *testing.T) map[string]scrapeConfig {
	t.Helper()
	var file struct {
		Jobs []scrapeConfig `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy/metrics/scrape.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	jobs := map[string]scrapeConfig{}
	for _, j := range file.Jobs {
		if _, twice := jobs[j.Job]; twice {
			t.Errorf("%s is there twice, which Prometheus refuses", j.Job)
		}
		jobs[j.Job] = j
	}
	return jobs
}

// The jobs find what the component opens, by the names of its ports, and give
// agents and DNS the label that alerts ask for. An agent that is no pod is one of
// the same job.
func TestScrapedByName(t *testing.T) {
	jobs, watched := scraped(t), overlay(t, kustomization+"components: [../deploy/metrics]\n")
	for job, app := range map[string]string{"gridmesh/gridmesh-agent": "gridmesh-agent", "gridmesh/gridmesh-dns": "gridmesh-dns", "gridmesh-controller": "gridmesh-controller"} {
		kind := "DaemonSet"
		if app == "gridmesh-controller" {
			kind = "Deployment"
		}
		template := find(t, watched, kind, app).Spec.Template
		if template.Labels["app.kubernetes.io/name"] != app || !slices.ContainsFunc(template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == "metrics" }) {
			t.Errorf("%s: its pods are not what the job keeps", job)
		}
		kept, node := false, false
		for _, r := range jobs[job].Relabel {
			kept = kept || r.Action == "keep" && r.Regex == app+";metrics"
			node = node || r.To == "node"
		}
		if !kept || node == (app == "gridmesh-controller") {
			t.Errorf("%s: %+v", job, jobs[job])
		}
	}
	units := jobs["gridmesh/gridmesh-agent-units"]
	last := units.Relabel[len(units.Relabel)-1]
	if last.To != "job" || last.Replace != "gridmesh/gridmesh-agent" || units.Relabel[0].Regex != "systemd" {
		t.Errorf("agents that are units: %+v", units)
	}
}

// A label of a metric that a target has too is the metric's.
func TestLabelsOfMetricsStay(t *testing.T) {
	ofPod, ofService := strings.Fields("namespace pod container endpoint job instance node"), strings.Fields("namespace pod container endpoint job instance service")
	monitors := read(t, "deploy/monitoring/monitors.yaml")
	for _, tc := range []struct {
		name, job string
		dirs      []string
		target    []string
	}{
		{"gridmesh-agent", "gridmesh/gridmesh-agent", []string{"node", "xds", "capture", "kube/feed"}, ofPod},
		{"gridmesh-dns", "gridmesh/gridmesh-dns", []string{"dnsplugin"}, ofPod},
		{"gridmesh-controller", "gridmesh-controller", []string{"grid"}, ofService},
	} {
		both := ""
		for _, label := range labelsIn(t, tc.dirs) {
			if slices.Contains(tc.target, label) {
				both = label
			}
		}
		honored := false
		for _, doc := range strings.Split(monitors, "\n---\n") {
			if strings.Contains(doc, "Monitor\n") && strings.Contains(doc, "  name: "+tc.name+"\n") {
				honored = strings.Contains(doc, "\n      honorLabels: true")
			}
		}
		if honored != (both != "") || scraped(t)[tc.job].Honor != (both != "") {
			t.Errorf("%s: the label %q is the metric's and the target's; honored: %v by the monitor, %v by scrape.yaml", tc.name, both, honored, scraped(t)[tc.job].Honor)
		}
	}
}

// labelsIn are the labels of the metrics that files of these folders make.
func labelsIn(t *testing.T, dirs []string) (labels []string) {
	t.Helper()
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(edge.Root(), dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text := read(t, filepath.Join(dir, filepath.Base(path)))
			if !strings.Contains(text, "prometheus.") {
				continue
			}
			for _, m := range regexp.MustCompile(`\[\]string\{("[a-z", ]+)\}`).FindAllStringSubmatch(text, -1) {
				labels = append(labels, strings.Fields(strings.NewReplacer(`"`, "", ",", " ").Replace(m[1]))...)
			}
		}
	}
	if len(labels) == 0 {
		t.Errorf("no labels were found in %v", dirs)
	}
	return labels
}

// The command of the page makes a rule file of what the operator reads.
func TestRuleFile(t *testing.T) {
	command := ""
	for _, block := range fence.FindAllStringSubmatch(section(t, "docs/alerts.md", "Prometheus without its operator"), -1) {
		if strings.HasPrefix(block[2], "sed ") {
			command = block[2]
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(filepath.Join(edge.Root(), "deploy"))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || command == "" {
		t.Fatalf("%q: %v: %s", command, err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "gridmesh-rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []ruleGroup `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	want := find(t, decode(t, read(t, "deploy/monitoring/rules.yaml")), "PrometheusRule", "gridmesh").Spec.Groups
	if len(want) == 0 || !reflect.DeepEqual(file.Groups, want) {
		t.Errorf("the file has %d groups, the operator reads %d", len(file.Groups), len(want))
	}
}
