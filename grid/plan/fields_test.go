package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	kubejson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// written is a grid of a kind, as it is written.
func written(t testing.TB, kind, spec string) Object {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(fmt.Sprintf("{apiVersion: superedge.io/v1, kind: %s, metadata: {name: till}, spec: {gridUniqKey: site, %s}}", kind, spec)))
	var obj Object
	if err == nil {
		err = utiljson.Unmarshal(data, &obj)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// pods is a template around a container.
func pods(container string) string {
	return "template: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [" + container + "]}}}"
}

// fit are grids in which nothing is wrong; misfits others, with the fields and
// texts that are told of them.
var (
	fit = [][2]string{
		{"DeploymentGrid", `rollout: {maxUnits: 10%, order: [a], pauseSeconds: 5, progressDeadlineSeconds: null, paused: true}, templates: {a: b}, autoDeleteUnusedTemplate: false, ` + pods("{name: a, image: b, ports: [{containerPort: 80}], env: [{name: A, value: '1'}], resources: {limits: {cpu: 1, memory: 2Gi}}, readinessProbe: {httpGet: {port: main}, periodSeconds: 5.0}}")},
		{"DeploymentGrid", "templatePool: {b: {replicas: 2, strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}}}, " + pods("{name: a}")},
		{"StatefulSetGrid", "template: {serviceName: a, volumeClaimTemplates: [{metadata: {name: data, creationTimestamp: null}, spec: {resources: {requests: {storage: 1Gi}}}}]}"},
		{"ServiceGrid", "template: {ports: [{port: 80, targetPort: http}], sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}, selector: {app: a}}"},
	}
	misfits = []struct{ kind, spec, want string }{
		{"DeploymentGrid", `rollout: {paused: "yes"}`, `spec.rollout.paused: is a string, "yes"; true or false is wanted`},
		{"DeploymentGrid", `rollout: {pauseSeconds: 10m}`, `spec.rollout.pauseSeconds: is a string, "10m"; an integer is wanted`},
		{"DeploymentGrid", `rollout: {order: north}`, `spec.rollout.order: is a string, "north"; a list is wanted`},
		{"DeploymentGrid", `rollout: {maxUnits: [1]}`, `spec.rollout.maxUnits: is a list; an integer or a string is wanted`},
		{"DeploymentGrid", `rollout: {order: [1]}`, `spec.rollout.order[0]: is a number; a string is wanted: put it in quotes, as it is meant`},
		{"DeploymentGrid", `rolout: {}`, `spec.rolout: is no field of DeploymentGrid, and nothing comes of it; write rollout, or remove it`},
		{"DeploymentGrid", `rollout: {speed: 1}`, `spec.rollout.speed: is no field of DeploymentGrid, and nothing comes of it; correct it, or remove it: there are maxFailedUnits, maxUnits, order, pauseSeconds, paused, progressDeadlineSeconds`},
		{"DeploymentGrid", `templates: {a: 1}`, `spec.templates[a]: is a number; a string is wanted: put it in quotes, as it is meant`},
		{"DeploymentGrid", `template: all`, `spec.template: is a string, "all"; an object is wanted`},
		{"DeploymentGrid", `template: {replicas: "3"}`, `spec.template.replicas: is a string, "3"; an integer is wanted: write 3, without quotes`},
		{"DeploymentGrid", `template: {replicas: 3.5}`, `spec.template.replicas: is 3.5, a number; an integer is wanted`},
		{"DeploymentGrid", `template: {replicas: 3000000000}`, `spec.template.replicas: is 3000000000, and no more than 32 bits are kept of it; give a smaller number`},
		{"DeploymentGrid", `template: {templates: {}}`, `spec.template.templates: is no field of DeploymentSpec, and the API server refuses the Deployment with it; write template, or remove it`},
		{"DeploymentGrid", `templatePool: {b: {selectr: {}}}`, `spec.templatePool[b].selectr: is no field of DeploymentSpec, and the API server refuses the Deployment with it; write selector, or remove it`},
		{"DeploymentGrid", pods("{name: a, imgae: b}"), `spec.template.template.spec.containers[0].imgae: is no field of Container, and the API server refuses the Deployment with it; write image, or remove it`},
		{"DeploymentGrid", pods("{name: a, env: [{name: PORT, value: 8080}]}"), `spec.template.template.spec.containers[0].env[0].value: is a number; a string is wanted: put it in quotes, as it is meant`},
		{"DeploymentGrid", pods("{name: a, resources: {limits: {cpu: lots}}}"), `spec.template.template.spec.containers[0].resources.limits[cpu]: is a string, "lots"; a quantity is wanted, as 100m or 2Gi`},
		{"StatefulSetGrid", `template: {strategy: {}}`, `spec.template.strategy: is no field of StatefulSetSpec, and the API server refuses the StatefulSet with it; correct it, or remove it: there are`},
		{"ServiceGrid", `template: {ports: {port: 80}}`, `spec.template.ports: is an object; a list is wanted`},
		{"ServiceGrid", `template: {topologyKeys: [site]}`, `spec.template.topologyKeys: is no field of ServiceSpec, and the API server refuses the Service with it; remove it: the grid itself writes topologyKeys, from its gridUniqKey`},
		{"ServiceGrid", `topologykeys: [site]`, `spec.topologykeys: is no field of ServiceGrid, and nothing comes of it; remove it: the grid itself writes topologyKeys`},
		{"ServiceGrid", `templates: {}, template: {}`, `spec.templates: is no field of ServiceGrid, and nothing comes of it; write template, or remove it`},
	}
)

func TestFields(t *testing.T) {
	for _, tc := range fit {
		if got := Fields(written(t, tc[0], tc[1])); len(got) > 0 {
			t.Errorf("%s: %v", tc[1], got)
		}
	}
	for _, tc := range misfits {
		got := Fields(written(t, tc.kind, tc.spec))
		if len(got) != 1 || !strings.HasPrefix(got[0].String(), strings.ToLower(tc.kind)+" default/till: "+tc.want) {
			t.Errorf("%s:\n%v\nwant %s", tc.spec, got, tc.want)
		}
	}
}

// Outside of the spec, too; and of very many only some are named.
func TestFieldsOfAllOfAGrid(t *testing.T) {
	obj := written(t, "DeploymentGrid", pods("{name: a}"))
	obj["sepc"], obj["status"] = Object{}, Object{"units": "many"}
	obj["metadata"].(Object)["labels"] = Object{"site": int64(1)}
	got := Fields(obj)
	if len(got) != 2 || got[0].Field != "metadata.labels[site]" || got[1].Field != "sepc" || !strings.Contains(got[1].Text, "write spec") {
		t.Errorf("%v", got)
	}
	obj["metadata"].(Object)["lables"] = Object{}
	if got = Fields(obj); len(got) != 3 || got[1].String() != "deploymentgrid default/till: metadata.lables: is no field of ObjectMeta, and nothing comes of it; write labels, or remove it" {
		t.Errorf("%v", got)
	}
	delete(obj["metadata"].(Object), "lables")
	many := Object{}
	for i := range 1000 {
		many[fmt.Sprint(i)] = ""
	}
	obj["spec"] = many
	if got = Fields(obj); len(got) != mostMisfits+1 || !strings.HasPrefix(got[mostMisfits].Text, "982 more") {
		t.Errorf("%d problems, the last is %v", len(got), got[len(got)-1])
	}
}

// What is not named is counted, and costs no more than that: a text for each of
// 400,000 took 8 s and 400 MB.
func TestVeryManyMisfits(t *testing.T) {
	const wrong = 40_000
	container := Object{"name": "a"}
	for i := range wrong {
		container[fmt.Sprintf("portts%d", i)] = "x"
	}
	obj := written(t, "DeploymentGrid", pods("{name: a}"))
	spec := obj["spec"].(Object)["template"].(Object)["template"].(Object)["spec"].(Object)
	spec["containers"] = []any{container}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := Fields(obj)
	runtime.ReadMemStats(&after)
	if len(got) != mostMisfits+1 || !strings.HasPrefix(got[mostMisfits].Text, fmt.Sprint(wrong-mostMisfits, " more")) {
		t.Errorf("%d problems, the last is %v", len(got), got[len(got)-1])
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / wrong; each > 400 {
		t.Errorf("%d bytes for each that is not named", each)
	}
}

// What a plan itself reads of a template, and would take for absent where it is
// of another type, refuses the children: one that says replicas: "3" is not to
// run once.
func TestWhatAPlanReadsIsThere(t *testing.T) {
	const selector = "selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}"
	for spec, want := range map[string]string{
		"replicas: 3, " + selector + ", spec: {nodeSelector: {disk: ssd}}}": "",
		"replicas: null, " + selector + ", spec: {nodeSelector: null}}":     "",
		selector + "}":                                  "",
		`replicas: "3", ` + selector + "}":              `the template's replicas is a string, "3"; an integer is wanted: write 3, without quotes`,
		"replicas: 2.5, " + selector + "}":              "the template's replicas is 2.5, a number; an integer is wanted",
		"replicas: -1, " + selector + "}":               "the template's replicas is negative; give 0 or more",
		selector + ", spec: []}":                        "the template's template.spec is a list; an object is wanted",
		selector + ", spec: {nodeSelector: [disk]}}":    "the template's template.spec.nodeSelector is a list; an object is wanted",
		selector + ", spec: {nodeSelector: {disk: 1}}}": `the template's template.spec.nodeSelector[disk] is a number; a string is wanted: put it in quotes, as it is meant`,
	} {
		for _, kind := range []string{"DeploymentGrid", "StatefulSetGrid"} {
			g := decodeGrid(written(t, kind, "template: {"+spec+"}"))
			if got := g.templates["default"].fault; got != want {
				t.Errorf("%s, %s:\n%s\nwant %s", kind, spec, got, want)
			}
		}
	}
}

// FuzzFields compares with the decoder of an API server: it takes what nothing
// is said of, and nothing else.
func FuzzFields(f *testing.F) {
	for _, tc := range fit {
		f.Add(tc[0], []byte(asJSON(f, written(f, tc[0], tc[1])["spec"])))
	}
	for _, tc := range misfits {
		f.Add(tc.kind, []byte(asJSON(f, written(f, tc.kind, tc.spec)["spec"])))
	}
	f.Add("DeploymentGrid", []byte(`{"template": {"template": {"spec": {"terminationGracePeriodSeconds": 1e16}}}}`))
	f.Fuzz(func(t *testing.T, kind string, text []byte) {
		var spec Object
		if utiljson.Unmarshal(text, &spec) != nil || kindOf(kind) == nil {
			return
		}
		problems := Fields(Object{"apiVersion": "superedge.io/v1", "kind": kind, "metadata": Object{"name": "x"}, "spec": spec})
		if err := decoder(t, kindOf(kind), spec); (err == nil) != (len(problems) == 0) {
			t.Errorf("%s\nthe decoder says %v, we say %v", text, err, problems)
		}
	})
}

// decoder is what an API server's decoder says of a spec, without paths, and of
// the first that does not fit.
func decoder(t *testing.T, kind *Kind, spec Object) error {
	t.Helper()
	field, _ := kind.grid.FieldByName("Spec")
	into := map[string]reflect.Type{"": field.Type}
	rest := Object{}
	for name, v := range spec {
		switch pool, isPool := v.(Object); {
		case name == "template":
			into[asJSON(t, v)] = kind.spec
		case name == "templatePool" && kind.PerUnit && isPool:
			for _, one := range pool {
				into[asJSON(t, one)] = kind.spec
			}
		default:
			rest[name] = v
		}
	}
	into[asJSON(t, rest)] = field.Type
	delete(into, "")
	for text, as := range into {
		strict, err := kubejson.UnmarshalStrict([]byte(text), reflect.New(as).Interface())
		if err != nil {
			return err
		}
		if len(strict) > 0 {
			return strict[0]
		}
	}
	return nil
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
