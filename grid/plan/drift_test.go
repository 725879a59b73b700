package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) Object {
	t.Helper()
	var obj Object
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}

// Zero is as good as absent, and items of lists are compared with those that
// server-side apply takes for the same; what somebody changed is found.
func TestDifferences(t *testing.T) {
	for _, tc := range []struct{ wanted, live, want string }{
		{`{env: [{name: X, value: ""}]}`, `{env: [{name: X}]}`, ""},
		{`{env: [{name: X, value: ""}]}`, `{env: [{name: X, value: set}]}`, ".env[0].value"},
		{`{hostNetwork: false, initialDelaySeconds: 0, nodeSelector: {}, args: []}`, `{}`, ""},
		{`{hostNetwork: false}`, `{hostNetwork: true}`, ".hostNetwork"},
		{`{replicas: 0}`, `{replicas: 3}`, ".replicas"},
		{`{volumeMounts: [{name: data, mountPath: /a, readOnly: false}, {name: data, mountPath: /b, subPath: b}]}`, `{volumeMounts: [{name: data, mountPath: /a}, {name: data, mountPath: /b, subPath: b}]}`, ""},
		{`{volumeMounts: [{name: data, mountPath: /a}, {name: data, mountPath: /b, subPath: b}]}`, `{volumeMounts: [{name: data, mountPath: /b}, {name: data, mountPath: /a}]}`, ".volumeMounts[1].subPath"},
		{`{volumeMounts: [{name: data, mountPath: /a}]}`, `{volumeMounts: [{name: data, mountPath: /b}]}`, ".volumeMounts[0]"},
		{`{ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]}`, `{ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]}`, ""},
		{`{ports: [{port: 80, name: web}]}`, `{ports: [{port: 80, name: other, protocol: TCP, targetPort: 80}]}`, ".ports[0].name"},
		{`{env: [{name: A, value: "1"}, {name: A, value: "2"}]}`, `{env: [{name: A, value: "1"}, {name: A, value: "2"}]}`, ""},
		{`{containers: [{name: a, image: x}]}`, `{containers: [{name: injected}, {name: a, image: x}]}`, ""},
		{`{containers: [{name: a, image: x}]}`, `{containers: []}`, ".containers[0]"},
		{`{args: [a]}`, `{args: [a, b]}`, ".args"},
		{`{args: ["1"]}`, `{args: ["1000m"]}`, ".args[0]"},
		{`{httpHeaders: [{name: X, value: a}, {name: X, value: b}]}`, `{httpHeaders: [{name: X, value: a}, {name: X, value: b}]}`, ""},
		{`{resources: {limits: {cpu: "1", memory: 1Gi}}}`, `{resources: {limits: {cpu: 1000m, memory: 1024Mi}}}`, ""},
		{`{resources: {limits: {cpu: "1"}}}`, `{resources: {limits: {cpu: "2"}}}`, ".resources.limits.cpu"},
		{`{volumes: [{name: d, emptyDir: {}}]}`, `{volumes: [{name: d, hostPath: {path: /x}}]}`, ".volumes[0].emptyDir"},
		{`{volumes: [{name: d, emptyDir: {}}]}`, `{volumes: [{name: d, emptyDir: {}}]}`, ""},
		{`{ipFamilies: [IPv4]}`, `{ipFamilies: [IPv4, IPv6]}`, ""},
		{
			`{topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: DoNotSchedule, maxSkew: 1}, {topologyKey: b, whenUnsatisfiable: DoNotSchedule, maxSkew: 1}]}`,
			`{topologySpreadConstraints: [{topologyKey: b, whenUnsatisfiable: DoNotSchedule, maxSkew: 2}, {topologyKey: a, whenUnsatisfiable: DoNotSchedule, maxSkew: 1}]}`,
			".topologySpreadConstraints[1].maxSkew",
		},
	} {
		got := ""
		if list := differences("", parse(t, tc.wanted), parse(t, tc.live)); len(list) > 0 {
			got = list[0].path
		}
		if got != tc.want {
			t.Errorf("%s, and there is %s: differs at %q, want %q", tc.wanted, tc.live, got, tc.want)
		}
	}
}

// The child of a unit that was made by another controller is that of its name,
// whatever its node selector says.
func TestUnitOfAnAdoptedChild(t *testing.T) {
	for text, want := range map[string]string{
		`{kind: Deployment, metadata: {name: till-north}, spec: {template: {spec: {nodeSelector: {site: south}}}}}`:                                        "north",
		`{kind: Deployment, metadata: {name: till-north, annotations: {gridmesh.io/unit: west}}, spec: {template: {spec: {nodeSelector: {site: south}}}}}`: "west",
		`{kind: Deployment, metadata: {name: otherwise}, spec: {template: {spec: {nodeSelector: {site: south}}}}}`:                                         "south",
	} {
		if got := readChild(parse(t, text)).unit("till", "site"); got != want {
			t.Errorf("%s is of unit %q, want %q", text, got, want)
		}
	}
}

// A child that is taken over restarts its pods where their template changes,
// by what is said, and by what is said no longer.
func TestRestarts(t *testing.T) {
	const live = `{spec: {template: {metadata: {labels: {app: x, superedge.io/template-hash-key: "1"}}, spec: {nodeSelector: {site: north}, restartPolicy: Always, containers: [{name: c, image: v1, imagePullPolicy: Always, env: [{name: A, value: a}]}]}}}}`
	grid := `{kind: DeploymentGrid, apiVersion: superedge.io/v1, metadata: {name: till}, spec: {gridUniqKey: site, template: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: v1, env: [{name: A, value: a}]}]}}}}}`
	for _, tc := range []struct {
		unit   string
		change func(pods Object)
		want   bool
	}{
		{"north", func(Object) {}, false},
		{"south", func(Object) {}, true},
		{"north", func(pods Object) {
			ensure(pods, "spec")["containers"] = []any{Object{"name": "c", "image": "v2", "env": []any{Object{"name": "A", "value": "a"}}}}
		}, true},
		{"north", func(pods Object) { ensure(pods, "spec")["containers"] = []any{Object{"name": "c", "image": "v1"}} }, true},
		{"north", func(pods Object) { ensure(pods, "metadata", "labels")["more"] = "1" }, true},
		{"north", func(pods Object) { ensure(pods, "spec")["hostNetwork"] = false }, false},
	} {
		obj := parse(t, grid)
		tc.change(ensure(obj, "spec", "template", "template"))
		g := decodeGrid(obj)
		child := parse(t, live)
		child["kind"] = "Deployment"
		template, _ := g.template(tc.unit)
		if got := g.desired(template, tc.unit, "till-"+tc.unit, readChild(child)).restarts(); got != tc.want {
			t.Errorf("unit %s, %v: restarts: %v", tc.unit, value[Object](obj, "spec", "template", "template"), got)
		}
	}
}

// What a child has of somebody else goes with its fields when it is adopted: its pods
// are replaced then, and so it waits for its wave. What Kubernetes put there by
// itself stays, and nothing restarts.
func TestRestartsByWhatIsDropped(t *testing.T) {
	const defaults = `{metadata: {creationTimestamp: null, labels: {app: x, superedge.io/template-hash-key: "1"}}, spec: {
  nodeSelector: {site: north}, restartPolicy: Always, dnsPolicy: ClusterFirst, schedulerName: default-scheduler, securityContext: {}, terminationGracePeriodSeconds: 30,
  serviceAccount: till, serviceAccountName: till,
  volumes: [{name: v, configMap: {name: m, defaultMode: 420}}, {name: t, projected: {defaultMode: 420, sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}}]}}],
  initContainers: [{name: i, image: "r:5000/i@sha256:12", imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}],
  containers: [{name: c, image: "r:5000/c", imagePullPolicy: Always, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File,
    ports: [{containerPort: 80, protocol: TCP}], env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}],
    livenessProbe: {httpGet: {path: /, port: 80, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}}]}}`
	const grid = `{kind: DeploymentGrid, apiVersion: superedge.io/v1, metadata: {name: till}, spec: {gridUniqKey: site, template: {selector: {matchLabels: {app: x}},
  template: {metadata: {labels: {app: x}}, spec: {serviceAccountName: till,
  volumes: [{name: v, configMap: {name: m}}, {name: t, projected: {sources: [{serviceAccountToken: {path: t}}]}}],
  initContainers: [{name: i, image: "r:5000/i@sha256:12"}],
  containers: [{name: c, image: "r:5000/c", ports: [{containerPort: 80}], env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}], livenessProbe: {httpGet: {port: 80}}}]}}}}}`
	container := func(pods Object, list string) Object { return value[[]any](pods, "spec", list)[0].(Object) }
	for what, tc := range map[string]struct {
		change func(pods Object)
		want   bool
	}{
		"defaults alone":     {func(Object) {}, false},
		"the node's network": {func(p Object) { ensure(p, "spec")["hostNetwork"] = true }, true},
		"and its absence":    {func(p Object) { ensure(p, "spec")["hostNetwork"] = false }, false},
		"a priority":         {func(p Object) { ensure(p, "spec")["priorityClassName"] = "high" }, true},
		"more time to end":   {func(p Object) { ensure(p, "spec")["terminationGracePeriodSeconds"] = int64(60) }, true},
		"a probe": {func(p Object) {
			container(p, "containers")["readinessProbe"] = Object{"tcpSocket": Object{"port": int64(80)}}
		}, true},
		"a longer probe":             {func(p Object) { ensure(container(p, "containers"), "livenessProbe")["timeoutSeconds"] = int64(5) }, true},
		"a user":                     {func(p Object) { ensure(p, "spec", "securityContext")["runAsUser"] = int64(1) }, true},
		"a sidecar":                  {func(p Object) { container(p, "initContainers")["restartPolicy"] = "Always" }, true},
		"another policy of pulling":  {func(p Object) { container(p, "containers")["imagePullPolicy"] = "Never" }, true},
		"the policy of another tag":  {func(p Object) { container(p, "initContainers")["imagePullPolicy"] = "Always" }, true},
		"a path that is asked":       {func(p Object) { ensure(container(p, "containers"), "livenessProbe", "httpGet")["path"] = "/health" }, true},
		"an account by its old name": {func(p Object) { ensure(p, "spec")["serviceAccount"] = "other" }, true},
	} {
		live := parse(t, defaults)
		tc.change(live)
		g := decodeGrid(parse(t, grid))
		template, _ := g.template("north")
		child := Object{"kind": "Deployment", "spec": Object{"template": live}}
		if got := g.desired(template, "north", "till-north", readChild(child)).restarts(); got != tc.want {
			t.Errorf("%s: restarts: %v", what, got)
		}
	}
}

// What cannot be named, counted or chosen is refused before the API server is
// asked.
func TestBadGridsAreRefused(t *testing.T) {
	const spec = `{gridUniqKey: site, template: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}}}`
	for text, want := range map[string]string{
		`{apiVersion: superedge.io/v1, kind: StatefulSetGrid, metadata: {name: db}, spec: ` + spec + `}}`:                                                                    `unit x.y: "db-x.y" has a dot`,
		`{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: a.b}, spec: {gridUniqKey: site, template: {ports: [{port: 80}]}}}`:                                `metadata.name: "a.b-svc" is no name of a Service`,
		`{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: d}, spec: ` + spec + `, templatePool: {default: {}}}}`:                                         `spec.templatePool.default: is not used`,
		`{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: d}, spec: ` + spec + `, rollout: {maxUnits: 150%}}}`:                                           `spec.rollout.maxUnits: "150%" is no size of a wave`,
		`{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: d}, spec: ` + spec + `, rollout: {maxUnits: many}}}`:                                           `spec.rollout.maxUnits: "many" is no size of a wave`,
		`{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: d}, spec: ` + spec + `, rollout: {maxUnits: 0}}}`:                                              `spec.rollout.maxUnits: "0" is no size of a wave`,
		`{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: d}, spec: ` + spec + `, rollout: {pauseSeconds: -1}}}`:                                         `spec.rollout.pauseSeconds: must not be negative`,
		`{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: d}, spec: ` + spec + `, rollout: {maxUnits: 100%, progressDeadlineSeconds: 0}}}`:               `spec.rollout.progressDeadlineSeconds: must be at least 1`,
		`{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: sound}, spec: ` + spec + `, templatePool: {canary: {}}, rollout: {maxUnits: 50%, order: []}}}`: "",
	} {
		nodes := []Object{parse(t, `{apiVersion: v1, kind: Node, metadata: {name: n, labels: {site: x.y}}}`)}
		plans := All(World{Grids: []Object{parse(t, text)}, Nodes: nodes}, DefaultGuard(), time.Now())
		var got []string
		for _, p := range plans[0].Problems {
			got = append(got, p.String())
		}
		if want == "" && len(got) > 0 || want != "" && !slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, want) }) {
			t.Errorf("%s: problems %q, want %q", text, got, want)
		}
	}
}

// templatePool's entry "default" is not spec.template.
func TestThePoolHasNoDefault(t *testing.T) {
	g := decodeGrid(parse(t, `{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: d}, spec: {gridUniqKey: site,
  template: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}}},
  templatePool: {default: {selector: {matchLabels: {app: b}}, template: {metadata: {labels: {app: b}}}}}}}`))
	template, why := g.template("north")
	if got := value[string](template.alike.open(), "selector", "matchLabels", "app"); got != "a" || why != "" {
		t.Errorf("a unit runs the template of app %q (%s), want spec.template", got, why)
	}
}

// A Node whose label is empty is in no unit, as for traffic.
func TestAnEmptyValueIsNoUnit(t *testing.T) {
	u := newUnits()
	u.set("before", &node{labels: map[string]string{"site": ""}, ready: true})
	u.use("site")
	u.set("after", &node{labels: map[string]string{"site": ""}, ready: true})
	u.set("north", &node{labels: map[string]string{"site": "north"}, ready: true})
	if got := u.sorted("site"); !slices.Equal(got, []string{"north"}) || len(u.of("site")) != 1 {
		t.Errorf("units %q", got)
	}
	u.set("north", &node{labels: map[string]string{"site": ""}, ready: true})
	if got := u.sorted("site"); len(got) != 0 || len(u.of("site")) != 0 {
		t.Errorf("units %q", got)
	}
}
