package kubernetes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// What the CRDs can refuse they refuse, by field and with the cure.
func TestGridsRefusedByTheAPIServer(t *testing.T) {
	controller(t)
	const body = `spec: {gridUniqKey: KEY, template: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: gridmesh.test/app}]}}}}}`
	grid := func(name, key string) string {
		return "{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: " + name + "}, " + strings.Replace(body, "KEY", key, 1)
	}
	applied(t, grid("sound", "site"), "deploymentgrid/sound")
	edit := func(name, from, to string) string {
		text := strings.Replace(grid(name, "site"), from, to, 1)
		if text == grid(name, "site") {
			t.Fatalf("%s: %q is not there", name, from)
		}
		return text
	}
	for text, want := range map[string]string{
		grid("nokey", `""`):                    "gridUniqKey",
		grid(strings.Repeat("x", 100), "site"): "no more than 63 characters",
		grid(strings.Repeat("x", 300), "site"): "no more than",
		"{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: bare}, spec: {gridUniqKey: site}}":                   "spec.template: Required value",
		"{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: bare}, spec: {gridUniqKey: site}}":                      "spec.template: Required value",
		"{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: odd}, spec: {gridUniqKey: a b, template: {ports: []}}}": "must be a label key of nodes",
		grid("nolabel", "a/b/c"):                                                                "must be a label key of nodes",
		grid("nounit", `"site "`):                                                               "must be a label key of nodes",
		edit("deaf", "labels: {app: x}", "labels: {app: other}"):                                "selector.matchLabels must be among template.metadata.labels",
		edit("unselected", "selector: {matchLabels: {app: x}}", "selector: {}"):                 "selector must not be empty",
		edit("missing", "selector: {matchLabels: {app: x}}, ", ""):                              "selector: Required value",
		edit("nopool", "spec: {", "spec: {templates: {north: canary}, "):                        "must name entries of spec.templatePool",
		edit("nodefault", "spec: {", "spec: {defaultTemplateName: canary, "):                    "must name an entry of spec.templatePool",
		edit("nowave", "spec: {", "spec: {rollout: {maxUnits: 120%}, "):                         "a percentage up to 100%",
		edit("nullwave", "spec: {", "spec: {rollout: {maxUnits: 0}, "):                          "must be a number from 1",
		edit("badpool", "spec: {", "spec: {templatePool: {canary: {template: {}}}, "):           "spec.templatePool.canary.selector: Required value",
		edit("negative", "spec: {", "spec: {rollout: {pauseSeconds: -1}, "):                     "greater than or equal to 0",
		edit("longunit", "spec: {", "spec: {rollout: {order: ["+strings.Repeat("u", 64)+"]}, "): "63",
	} {
		if err := c.Apply(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want a word on %q", text, err, want)
		}
	}
}

// What only the controller can refuse is a condition and an Event with field
// and cure, while the grid's other units go on. A Deployment whose name is
// somebody's gets another; a StatefulSet's and a Service's name is a contract.
func TestGridsRefusedByTheController(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south", "b-2": "A.unit_value-at-the-limit-of-what-a-label-may-hold-xxxxxxxxxxxx"})
	p := controller(t)
	const mine = `{apiVersion: apps/v1, kind: KIND, metadata: {name: NAME-south, labels: {mine: "yes"}}, spec: {replicas: 0, selector: {matchLabels: {app: mine}}, template: {metadata: {labels: {app: mine}}, spec: {containers: [{name: app, image: gridmesh.test/app}]}}}}`
	for kind, name := range map[string]string{"Deployment": "owned", "StatefulSet": "held"} {
		applied(t, strings.NewReplacer("NAME", name, "KIND", kind).Replace(mine), strings.ToLower(kind)+"/"+name+"-south")
	}
	applied(t, `{apiVersion: v1, kind: Service, metadata: {name: kept-svc}, spec: {ports: [{port: 80}]}}`, "service/kept-svc")
	applied(t, deploymentGrid("owned", "", "1"), "deploymentgrid/owned")
	set := strings.Replace(strings.Replace(deploymentGrid("held", "", "1"), "kind: DeploymentGrid", "kind: StatefulSetGrid", 1), "template: {selector", "template: {serviceName: held, selector", 1)
	applied(t, set, "statefulsetgrid/held")
	applied(t, `{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: kept}, spec: {gridUniqKey: site, template: {ports: [{port: 81}]}}}`, "servicegrid/kept")

	_, err := c.Kubectl("patch", "crd/deploymentgrids.superedge.io", "--type=json", "-p", `[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/gridUniqKey/maxLength","value":5}]`)
	must(t, err)

	allReady(t, "deploymentgrids", "owned", 3)
	if d, err := child("owned-south"); err != nil || d.Labels["mine"] != "yes" || d.Spec.Template.Labels["app"] != "mine" || len(d.OwnerReferences) > 0 {
		t.Errorf("somebody's Deployment was taken: %v, %v", d.Labels, err)
	}
	list, err := c.Kube.AppsV1().Deployments("default").List(patient(t), metav1.ListOptions{LabelSelector: "superedge.io/grid-selector=owned"})
	must(t, err)
	units := map[string]string{}
	for _, d := range list.Items {
		units[d.Annotations["gridmesh.io/unit"]] = d.Name
	}
	if len(units) != 3 || !strings.HasPrefix(units["south"], "owned-south-") || units["north"] != "owned-north" {
		t.Errorf("children by unit: %v", units)
	}

	wait.Eventually(t, func() error {
		st, err := statusOf(t, "statefulsetgrids", "held")
		if err != nil {
			return err
		}
		if st.RefusedUnits != 2 || st.ReadyUnits != 1 {
			return fmt.Errorf("%d refused, %d ready: %v", st.RefusedUnits, st.ReadyUnits, st.Worst)
		}
		return hasCondition(st.Conditions, "Valid", metav1.ConditionFalse, "a StatefulSet held-south exists and is not this grid's; delete it, or")
	})
	wait.Eventually(t, func() error { return hasEvent(t, "held", "Refused", "held-south exists and is not this grid's") })
	wait.Eventually(t, func() error { return hasEvent(t, "held", "Refused", "is no name of an object") })
	wait.Eventually(t, func() error { return hasEvent(t, "kept", "Refused", "a Service of this name exists") })
	if svc, err := c.Kube.CoreV1().Services("default").Get(patient(t), "kept-svc", metav1.GetOptions{}); err != nil || svc.Spec.Ports[0].Port != 80 {
		t.Errorf("somebody's Service was taken: %v", err)
	}
	// What the API server refuses of a child is said of the grid: a selector
	// cannot change.
	must(t, c.Apply(strings.ReplaceAll(deploymentGrid("owned", "rollout: {maxUnits: 2}", "1"), "{app: owned}", "{app: other}")))
	wait.Eventually(t, func() error {
		st, err := statusOf(t, "deploymentgrids", "owned")
		if err != nil {
			return err
		}
		return errors.Join(hasCondition(st.Conditions, "Valid", metav1.ConditionFalse, "field is immutable; correct the template"), hasCondition(st.Conditions, "Progressing", metav1.ConditionFalse, "Stopped"))
	})
	wait.Within(t, byWatch, func() error { return hasEvent(t, "owned", "Refused", "spec.selector: Invalid value") })
	must(t, c.Apply(deploymentGrid("owned", "rollout: {maxUnits: 2}", "1")))
	allReady(t, "deploymentgrids", "owned", 3)
	wait.Within(t, byWatch, func() error {
		st, err := statusOf(t, "deploymentgrids", "owned")
		if err != nil {
			return err
		}
		return hasCondition(st.Conditions, "Valid", metav1.ConditionTrue, "Valid")
	})
	// What is in the way goes: the unit comes alive.
	_, err = c.Kubectl("delete", "statefulset/held-south")
	must(t, err)
	took := wait.Eventually(t, func() error {
		st, err := statusOf(t, "statefulsetgrids", "held")
		if err == nil && (st.RefusedUnits != 1 || st.ReadyUnits != 2) {
			err = fmt.Errorf("%d refused, %d ready: %v", st.RefusedUnits, st.ReadyUnits, st.Worst)
		}
		return err
	})
	t.Logf("a name that was somebody's was used %s after it was free", took)
	took = wait.Eventually(t, func() error {
		out, err := c.Kubectl("get", "crd/deploymentgrids.superedge.io", "-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.gridUniqKey.maxLength}")
		if err == nil && out != "317" {
			err = fmt.Errorf("maxLength is %s", out)
		}
		return err
	})
	t.Logf("the CRD was mended %s later", took)
	if !p.Running() {
		t.Error("the controller ended")
	}
}

// What the API server finds no place for in a child, a field that does not
// exist or a value of another type, is said of the grid with the field: no try
// would end otherwise.
func TestFieldsThatNoChildHas(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north"})
	controller(t)
	good := deploymentGrid("typo", "", "0")
	for from, say := range map[string][2]string{
		"image:":       {"imgae:", `.imgae: field not declared in schema; correct the template`},
		"{name: app, ": {"{", "containers[0].name: Required value"},
		"containers:":  {`hostNetwork: "yes", containers:`, "spec.template.spec.hostNetwork: expected boolean"},
		"name: app,":   {"name: app, resources: {limits: {cpu: lots}},", "quantities must match"},
	} {
		bad := strings.Replace(good, from, say[0], 1)
		if bad == good {
			t.Fatalf("%q is not in %s", from, good)
		}
		applied(t, bad, "deploymentgrid/typo")
		wait.Within(t, byWatch, func() error {
			st, err := statusOf(t, "deploymentgrids", "typo")
			if err != nil {
				return err
			}
			if len(st.Worst) == 1 && strings.Contains(st.Worst[0].Message, say[1]) {
				return hasCondition(st.Conditions, "Valid", metav1.ConditionFalse, say[1])
			}
			return fmt.Errorf("worst %v: %v", st.Worst, st.Conditions)
		})
	}
	applied(t, `{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: typo}, spec: {gridUniqKey: site, template: {selectr: {app: x}, ports: [{port: 80}]}}}`, "servicegrid/typo")
	wait.Within(t, byWatch, func() error {
		out, err := c.Kubectl("get", "servicegrid/typo", "-o", `jsonpath={.status.conditions[?(@.type=="Valid")].message}`)
		if err == nil && !strings.Contains(out, "spec.selectr: field not declared in schema") {
			err = fmt.Errorf("Valid says %q", out)
		}
		return err
	})
	wait.Within(t, byWatch, func() error { return hasEvent(t, "typo", "Refused", "selectr: field not declared in schema") })
	must(t, c.Apply(good))
	allReady(t, "deploymentgrids", "typo", 1)
}

// An API server takes no StatefulSet whose name has a dot: of a unit whose value has one that is said, by plan and by the
// controller, and the other units go on.
func TestGridSetsOfAUnitWithADot(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "b-1": "v1.2"})
	controller(t)
	set := strings.Replace(strings.Replace(deploymentGrid("dots", "", "1"), "kind: DeploymentGrid", "kind: StatefulSetGrid", 1), "template: {selector", "template: {serviceName: dots-svc, selector", 1)
	applied(t, set, "statefulsetgrid/dots")
	wait.Eventually(t, func() error {
		st, err := statusOf(t, "statefulsetgrids", "dots")
		if err == nil && (st.RefusedUnits != 1 || st.ReadyUnits != 1) {
			err = fmt.Errorf("%d refused, %d ready: %v", st.RefusedUnits, st.ReadyUnits, st.Worst)
		}
		return err
	})
	wait.Eventually(t, func() error { return hasEvent(t, "dots", "Refused", `"dots-v1.2" has a dot`) })
	const byHand = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: dots-v1.2}, spec: {replicas: 0, serviceName: dots-svc, selector: {matchLabels: {app: dots}}, template: {metadata: {labels: {app: dots}}, spec: {containers: [{name: app, image: gridmesh.test/app}]}}}}`
	if err := c.Apply(byHand); err == nil || !strings.Contains(err.Error(), "must not contain dots") {
		t.Errorf("by hand: %v", err)
	}
}
