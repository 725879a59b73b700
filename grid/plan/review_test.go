package plan

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// What serviceName names must be there, and be of the same units: else the
// pods run and have no names. That is said, with field and cure, and refuses
// nothing.
func TestServiceNameNamesAService(t *testing.T) {
	const beside = `
kind: Node, apiVersion: v1, metadata: {name: n, labels: {site: north, zone: z}}
apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: db, namespace: default}, spec: {gridUniqKey: site, template: {selector: {app: a}, ports: [{port: 80}]}}
apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: db-svc, namespace: default}, spec: {gridUniqKey: zone, template: {selector: {app: a}, ports: [{port: 80}]}}
apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: far, namespace: other}, spec: {gridUniqKey: site, template: {selector: {app: a}, ports: [{port: 80}]}}
apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: bad, namespace: default}, spec: {gridUniqKey: "a b", template: {ports: [{port: 80}]}}
apiVersion: v1, kind: Service, metadata: {name: plain, namespace: default}, spec: {clusterIP: None}
apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: others, namespace: default}, spec: {gridUniqKey: site, template: {selector: {app: a, tier: b}, ports: [{port: 80}]}}
apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: none, namespace: default}, spec: {gridUniqKey: site, template: {ports: [{port: 80}]}}
apiVersion: v1, kind: Service, metadata: {name: elsewhere, namespace: default}, spec: {clusterIP: None, selector: {app: b}}
`
	const template = `selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a, version: v1}}}`
	for spec, want := range map[string]string{
		`gridUniqKey: site, template: {` + template + `}`:                          "",
		`gridUniqKey: site, template: {serviceName: db-svc, ` + template + `}`:     "",
		`gridUniqKey: site, template: {serviceName: plain, ` + template + `}`:      "", // Kubernetes' own names
		`gridUniqKey: site, template: {serviceName: others-svc, ` + template + `}`: "spec.template.serviceName: names others-svc, which selects app=a, tier=b, and the pods have no such labels: they run, and their names resolve nowhere; give the pods those labels, or let the Service select theirs",
		`gridUniqKey: site, template: {serviceName: elsewhere, ` + template + `}`:  "names elsewhere, which selects app=b, and the pods have no such labels",
		`gridUniqKey: site, template: {serviceName: none-svc, ` + template + `}`:   "spec.template.serviceName: names none-svc, which selects no pods: they run, and their names resolve nowhere; give it a selector that their labels have",
		`gridUniqKey: site, template: {serviceName: db-svc, ` + template + `}, templatePool: {v2: {serviceName: db-svc, selector: {matchLabels: {app: c}}, template: {metadata: {labels: {app: c}}}}}, templates: {north: v2}`: "spec.templatePool.v2.serviceName: names db-svc, which selects app=a",
		`gridUniqKey: site, template: {serviceName: bad-svc, ` + template + `}`:                                                            "", // that grid has a problem of its own
		`gridUniqKey: site, template: {serviceName: db, ` + template + `}`:                                                                 "spec.template.serviceName: names the grid db and not its Service: the pods run, and their names resolve nowhere; write db-svc",
		`gridUniqKey: zone, template: {serviceName: db-svc, ` + template + `}`:                                                             "spec.template.serviceName: names db-svc, whose units are the values of site and not of zone: the pods run, and their names resolve nowhere; give both grids one gridUniqKey",
		`gridUniqKey: site, template: {serviceName: far-svc, ` + template + `}`:                                                            "spec.template.serviceName: names far-svc, and there is no such Service here: the pods run, and their names resolve nowhere; write db-svc",
		`gridUniqKey: room, template: {serviceName: far-svc, ` + template + `}`:                                                            "add the ServiceGrid far, or ask the cluster (--kubeconfig)",
		`gridUniqKey: room, template: {serviceName: nobody, ` + template + `}`:                                                             "write the Service of a ServiceGrid, which has the grid's name and -svc",
		`gridUniqKey: site, template: {` + template + `}, templatePool: {v2: {serviceName: db, ` + template + `}}, templates: {north: v2}`: "spec.templatePool.v2.serviceName: names the grid db",
	} {
		var w World
		for _, text := range append(strings.Split(strings.TrimSpace(beside), "\n"), `apiVersion: superedge.io/v1, kind: StatefulSetGrid, metadata: {name: set, namespace: default}, spec: {`+spec+`}`) {
			obj := Object{}
			if err := yaml.Unmarshal([]byte("{"+text+"}"), &obj); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			w.Add(obj)
		}
		var problems []string
		for _, p := range Review(w) {
			if p.Object == "statefulsetgrid default/set" && strings.Contains(p.Field, "serviceName") {
				problems = append(problems, p.Field+": "+p.Text)
			}
		}
		if got := strings.Join(problems, "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s:\n%q, want %q", spec, got, want)
		}
		for _, p := range All(w, DefaultGuard(), time.Time{}) {
			for _, s := range p.Steps {
				if p.Grid.Kind == "StatefulSetGrid" && s.Action != Create {
					t.Errorf("%s: %s %s: %s", spec, s.Action, s.Unit, s.Why)
				}
			}
		}
	}
}

// A key that no node has is told, with what comes of it and the label that may be
// meant; without Nodes nobody knows, and what has one child for all units needs none.
func TestKeysThatNoNodeHas(t *testing.T) {
	const nodes = `{kind: Node, apiVersion: v1, metadata: {name: n1, labels: {site: north, region: ""}}}
{kind: Node, apiVersion: v1, metadata: {name: n2}}`
	const field = "spec.gridUniqKey: "
	for _, tc := range []struct{ kind, key, nodes, want string }{
		{"ServiceGrid", "site", nodes, ""},
		{"ServiceGrid", "stie", nodes, field + "makes a Service that answers nobody, for no node has the label stie; did you mean site? Correct the key, or label the nodes"},
		{"ServiceGrid", "region", nodes, field + "makes a Service that answers nobody, for no node has the label region; label the nodes, or correct the key"},
		{"ServiceGrid", "stie", "", ""},
		{"DeploymentGrid", "site", nodes, ""},
		{"DeploymentGrid", "stie", nodes, field + "makes nothing, for no node has the label stie; did you mean site? Correct the key, or label the nodes"},
		{"DeploymentGrid", "stie", "", "makes nothing, for there are no Nodes here; add those of the cluster (kubectl get nodes -o yaml), or ask it (--kubeconfig)"},
		{"StatefulSetGrid", "stie", nodes, field + "makes nothing, for no node has the label stie; did you mean site? Correct the key, or label the nodes"},
	} {
		grid := `{apiVersion: superedge.io/v1, kind: ` + tc.kind + `, metadata: {name: till}, spec: {gridUniqKey: ` + tc.key + `, template: {}}}`
		if tc.kind == "ServiceGrid" {
			grid = strings.Replace(grid, "template: {}", "template: {ports: [{port: 80}]}", 1)
		} else {
			grid = strings.Replace(grid, "template: {}", "template: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}}}", 1)
		}
		var w World
		for line := range strings.Lines(tc.nodes + "\n" + grid) {
			obj := Object{}
			if err := yaml.Unmarshal([]byte(line), &obj); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			w.Add(obj)
		}
		var problems []string
		for _, p := range Review(w) {
			problems = append(problems, strings.TrimPrefix(p.String(), strings.ToLower(tc.kind)+" default/till: "))
		}
		if got := strings.Join(problems, "\n"); got != tc.want {
			t.Errorf("%s with key %s:\n%q, want\n%q", tc.kind, tc.key, got, tc.want)
		}
	}
}

// Pods whose template does not say how long they stay on a node that is unreachable
// or not ready stay for as long as Kubernetes likes, and are deleted then.
func TestEvictable(t *testing.T) {
	const unreachable, notReady = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
	stays := func(key, more string) string { return "{key: " + key + ", operator: Exists" + more + "}" }
	pods := func(tolerations string) string {
		return "{selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {tolerations: " + tolerations + "}}}"
	}
	both := pods("[" + stays(unreachable, "") + ", " + stays(notReady, ", effect: NoExecute") + "]")
	for _, tc := range []struct {
		what, spec string
		want       bool
	}{
		{"nothing", "gridUniqKey: site, template: " + pods("[]"), true},
		{"no pods", "gridUniqKey: site, template: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}}}", true},
		{"both", "gridUniqKey: site, template: " + both, false},
		{"one of the two", "gridUniqKey: site, template: " + pods("["+stays(unreachable, "")+"]"), true},
		{"any", "gridUniqKey: site, template: " + pods("[{operator: Exists}]"), false},
		{"a day", "gridUniqKey: site, template: " + pods("["+stays(unreachable, ", tolerationSeconds: 86400")+", "+stays(notReady, ", tolerationSeconds: 86400")+"]"), false},
		{"the scheduler's alone", "gridUniqKey: site, template: " + pods("["+stays(unreachable, ", effect: NoSchedule")+", "+stays(notReady, "")+"]"), true},
		{"equal", "gridUniqKey: site, template: " + pods("[{key: "+unreachable+"}, {key: "+notReady+", operator: Equal}]"), false},
		{"equal to what it is not", "gridUniqKey: site, template: " + pods("[{key: "+unreachable+", value: x}, {key: "+notReady+"}]"), true},
		{"no list", "gridUniqKey: site, template: " + pods("7"), true},
		{"one template of two", "gridUniqKey: site, template: " + both + ", templatePool: {v2: " + pods("[]") + "}", true},
		{"both templates", "gridUniqKey: site, template: " + both + ", templatePool: {v2: " + both + "}", false},
		{"a grid that makes nothing", "gridUniqKey: a b, template: " + pods("[]"), false},
	} {
		for _, kind := range []string{"DeploymentGrid", "StatefulSetGrid"} {
			obj := Object{}
			if err := yaml.Unmarshal([]byte("{apiVersion: superedge.io/v1, kind: "+kind+", metadata: {name: till}, spec: {"+tc.spec+"}}"), &obj); err != nil {
				t.Fatalf("%s: %v", tc.what, err)
			}
			var w World
			w.Add(obj)
			if got := len(Evictable(w)) > 0; got != tc.want {
				t.Errorf("%s, %s: %v, want %v", kind, tc.what, got, tc.want)
			}
		}
	}
	var w World
	w.Add(Object{"apiVersion": "superedge.io/v1", "kind": "ServiceGrid", "metadata": Object{"name": "till"}, "spec": Object{"gridUniqKey": "site", "template": Object{"selector": Object{"app": "a"}}}})
	if got := Evictable(w); got != nil {
		t.Errorf("a Service has no pods: %v", got)
	}
}

// What is wrong with a grid is told at once, also where it makes nothing for want of a template.
func TestMistakesAreToldAtOnce(t *testing.T) {
	obj := Object{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: shop, namespace: default}
spec:
  gridUniqKey: site
  templatePool: {v1: {selector: {matchLabels: {app: s}}, template: {metadata: {labels: {app: t}}}}}
  templates: {north: v2}
  rollout: {maxUnits: 10pct, pauseSeconds: -1}
`), &obj); err != nil {
		t.Fatal(err)
	}
	var w World
	w.Add(obj)
	told := map[string]bool{}
	for _, p := range Review(w) {
		told[p.Field] = true
	}
	for _, p := range All(w, DefaultGuard(), time.Time{}) {
		for _, q := range p.Problems {
			told[q.Field] = true
		}
	}
	for _, field := range []string{"spec.template", "spec.templatePool.v1", "spec.templates[north]", "spec.rollout.maxUnits", "spec.rollout.pauseSeconds"} {
		if !told[field] {
			t.Errorf("%s is not among %v", field, told)
		}
	}
}
