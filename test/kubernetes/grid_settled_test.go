package kubernetes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// settledGrid has fields that an API server does not store, or stores in another
// order, and one that the policy below rewrites.
const settledGrid = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: settled}
spec:
  gridUniqKey: site
  rollout: {maxUnits: 1}
  template:
    minReadySeconds: 2
    selector: {matchLabels: {app: settled}}
    template:
      metadata: {labels: {app: settled}, annotations: {}}
      spec:
        terminationGracePeriodSeconds: 1
        hostNetwork: false
        nodeSelector: {}
        volumes: [{name: d, emptyDir: {}}]
        containers:
        - name: app
          image: gridmesh.test/app
          env: [{name: RELEASE, value: "VERSION"}, {name: EMPTY, value: ""}]
          ports: [{name: main, containerPort: 8080}, {name: other, containerPort: 8080, protocol: UDP}]
          readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1, initialDelaySeconds: 0}
          resources: {requests: {cpu: "0.010"}}
          volumeMounts: [{name: d, mountPath: /mnt, readOnly: false}, {name: d, mountPath: /srv}]
`

// lastWord rewrites a field of every Deployment with the grid's label.
const lastWord = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: last-word}
spec:
  reinvocationPolicy: Never
  failurePolicy: Fail
  matchConstraints:
    objectSelector: {matchLabels: {superedge.io/grid-selector: settled}}
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{spec: Object.spec{minReadySeconds: 1}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: last-word}
spec: {policyName: last-word}
`

// What the API server does not store, and what an admission policy rewrites, is
// no change by hand: the grid is ready, its waves go on, and nothing is written
// again, by a successor neither; the command for people says what it is.
func TestGridsAndWhoElseWrites(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	applied(t, lastWord, "mutatingadmissionpolicy/last-word", "mutatingadmissionpolicybinding/last-word")
	wait.Eventually(t, func() error { // a policy is in force a moment after it is stored
		out, err := c.Kubectl("create", "deployment", "probe", "--image=x", "--dry-run=client", "-o", "yaml")
		must(t, err)
		labelled := strings.Replace(out, "app: probe", "superedge.io/grid-selector: settled", 1)
		seen, err := c.KubectlInput([]byte(labelled), "create", "--dry-run=server", "-o", "jsonpath={.spec.minReadySeconds}", "-f", "-")
		if err == nil && strings.TrimSpace(seen) != "1" {
			err = fmt.Errorf("minReadySeconds is %q", seen)
		}
		return err
	})
	manifest := func(version string) string { return strings.Replace(settledGrid, "VERSION", version, 1) }
	first := controller(t)
	applied(t, manifest("1"), "deploymentgrid/settled")
	allReady(t, "deploymentgrids", "settled", 2)
	d, err := child("settled-north")
	must(t, err)
	if d.Spec.MinReadySeconds != 1 || d.Annotations["gridmesh.io/settled"] == "" {
		t.Fatalf("the policy set minReadySeconds to %d; annotations %v", d.Spec.MinReadySeconds, d.Annotations)
	}
	mustRest(t, childWrites, wait.Settled(t, calm, func() float64 { return childWrites(t) }))

	// Waves go on.
	must(t, c.Apply(manifest("2")))
	wait.Eventually(t, func() error {
		var errs []error
		for _, name := range []string{"settled-north", "settled-south"} {
			d, err := child(name)
			if err == nil && d.Spec.Template.Spec.Containers[0].Env[0].Value != "2" {
				err = fmt.Errorf("%s runs %s", name, d.Spec.Template.Spec.Containers[0].Env[0].Value)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	allReady(t, "deploymentgrids", "settled", 2)
	wait.Eventually(t, func() error {
		st, err := statusOf(t, "deploymentgrids", "settled")
		if err != nil {
			return err
		}
		return hasCondition(st.Conditions, "Ready", metav1.ConditionTrue, "")
	})
	if out := inspect(t, "grid", "units", "settled"); !strings.Contains(out, "spec.minReadySeconds is not as the grid has it") {
		t.Errorf("gridmesh grid units does not name the field:\n%s", out)
	}

	// Neither does a successor write.
	before := wait.Settled(t, calm, func() float64 { return childWrites(t) })
	first.Kill()
	next := controller(t)
	wait.Eventually(t, func() error {
		if !strings.Contains(next.Log(), "msg=leading") {
			return errors.New("the successor does not lead")
		}
		return nil
	})
	mustRest(t, childWrites, before)

	// The API server has the same mind about names as the plan.
	out, err := c.KubectlInput([]byte(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db-x.y}, spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: x}]}}}}`), "create", "--dry-run=server", "-f", "-")
	if err == nil {
		t.Errorf("a StatefulSet's name with a dot is taken: %s", out)
	}
}
