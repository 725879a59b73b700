package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const (
	healthAccount = "gridmesh-health"
	healthUser    = "system:serviceaccount:gridmesh:gridmesh-health"
	boundTo       = "authentication.kubernetes.io/node-name"
)

// healthRights are more than gridmesh-health needs: what a policy refuses is not for want of a right.
const healthRights = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: gridmesh-health, namespace: gridmesh}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gridmesh-health-test}
rules:
  - {apiGroups: [""], resources: [nodes, nodes/status], verbs: [get, create, update, patch]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gridmesh-health-test}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gridmesh-health-test}
subjects: [{kind: ServiceAccount, name: gridmesh-health, namespace: gridmesh}]
`

// units is who is where: b-2 is nowhere.
var units = map[string]string{"a-1": "a", "a-2": "a", "b-1": "b"}

// attempt is a patch of a Node by somebody, and whether it is refused, with what words.
type attempt struct {
	name, node, patch string
	refused           string
	sub               []string
}

func set(kind, key, value string) string {
	v := "null"
	if value != "null" {
		text, _ := json.Marshal(value)
		v = string(text)
	}
	return fmt.Sprintf(`{"metadata":{%q:{%q:%s}}}`, kind, key, v)
}

func vote(value string) string { return set("annotations", names.NodeHealth, value) }

// voted is a verdict with what it rests on, by a voter.
func voted(by, value string) string {
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{names.NodeHealth: value, names.Evidence: "yes=0 no=2 of=3 by=" + by + " at="}}})
	return string(text)
}

// stands has a verdict stand on a Node while a test runs.
func stands(t *testing.T, node string) {
	t.Helper()
	patch := func(text string) {
		_, err := c.Kube.CoreV1().Nodes().Patch(patient(t), node, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		must(t, err)
	}
	patch(`{"metadata":{"annotations":{"superedgehealth/node-health":"true","superedgehealth/evidence":"yes=3 no=0 of=3 by=a-2 at="}}}`)
	t.Cleanup(func() {
		patch(`{"metadata":{"annotations":{"superedgehealth/node-health":null,"superedgehealth/evidence":null}}}`)
	})
}

// try rehearses patches: what is not refused is not stored either.
func try(t *testing.T, api kubernetes.Interface, list []attempt) {
	t.Helper()
	for _, a := range list {
		t.Run(a.name, func(t *testing.T) {
			_, err := api.CoreV1().Nodes().Patch(patient(t), a.node, types.StrategicMergePatchType, []byte(a.patch), metav1.PatchOptions{DryRun: rehearsed.DryRun}, a.sub...)
			switch {
			case a.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case a.refused != "" && !strings.Contains(fmt.Sprint(err), a.refused):
				t.Errorf("%v, want a refusal with %q", err, a.refused)
			}
		})
	}
}

// votes installs the policies, and waits until they are in force.
func votes(t *testing.T) {
	t.Helper()
	policies(t, policy.Votes())
	applied(t, healthRights, "clusterrole/gridmesh-health-test", "clusterrolebinding/gridmesh-health-test", "--namespace=gridmesh", "serviceaccount/gridmesh-health")
	parameter(t, names.Units, units)
	voter := as(t, healthUser, map[string][]string{boundTo: {"a-1"}}, "system:masters")
	kubelet := as(t, "system:node:a-1", nil, "system:nodes")
	wait.Eventually(t, func() error {
		refused := func(api kubernetes.Interface, node, patch string) error {
			_, err := api.CoreV1().Nodes().Patch(patient(t), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: rehearsed.DryRun})
			if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
				return fmt.Errorf("not refused yet: %w", errors.Join(err))
			}
			return nil
		}
		var lease error
		for why, wrong := range map[string]*coordinationv1.Lease{notOwnUnit: leaseOf("b", "a-1"), notOwnName: leaseOf("a", "a-2")} { // each by one policy alone
			_, err := voter.CoordinationV1().Leases(gridmesh).Create(patient(t), wrong, metav1.CreateOptions{DryRun: rehearsed.DryRun})
			if !strings.Contains(refusal(err), why) {
				lease = errors.Join(lease, fmt.Errorf("a Lease is not refused with %q yet: %w", why, errors.Join(err)))
			}
		}
		return errors.Join(refused(voter, "a-2", set("labels", "x", "y")), refused(voter, "b-1", voted("a-1", "true")), refused(kubelet, "a-1", vote("true")), lease)
	})
}

// Who votes writes verdicts on its own unit, and nothing else of a Node.
func TestAVoteIsAllThatAVoterWrites(t *testing.T) {
	votes(t)
	stands(t, "a-2")
	const others, alone, unit = "changes Nodes that are there, and their annotations alone", "of the annotations gridmesh-health changes", "voter's own unit"
	const own, anew = "voter's own node (by=)", "with what it rests on anew"
	taint := `{"spec":{"taints":[{"key":"x","effect":"NoExecute"}]}}`
	voter := func(node ...string) kubernetes.Interface {
		extra := map[string][]string{}
		if len(node) > 0 {
			extra[boundTo] = node
		}
		return as(t, healthUser, extra, "system:masters")
	}
	try(t, voter("a-1"), []attempt{
		{name: "a verdict", node: "a-2", patch: voted("a-1", "false")},
		{name: "a verdict on itself", node: "a-1", patch: voted("a-1", "true")},
		{name: "a verdict alone", node: "a-2", patch: vote("false"), refused: anew},
		{name: "the first one alone", node: "a-1", patch: vote("true"), refused: anew},
		{name: "public SuperEdge's alone", node: "a-2", patch: set("annotations", names.NodeUnhealthy, "yes"), refused: anew},
		{name: "with evidence", node: "a-2", patch: `{"metadata":{"annotations":{"superedgehealth/node-health":"false","superedgehealth/evidence":"yes=0 no=2 of=3 by=a-1 at=","nodeunhealth":"yes"}}}`},
		{name: "another's evidence", node: "a-2", patch: set("annotations", names.Evidence, "yes=0 no=2 of=3 by=a-11 at="), refused: own},
		{name: "nobody's evidence", node: "a-2", patch: set("annotations", names.Evidence, "yes=0 no=2 of=3"), refused: own},
		{name: "evidence withdrawn", node: "a-2", patch: set("annotations", names.Evidence, "null"), refused: own},
		{name: "a verdict withdrawn", node: "a-2", patch: vote("null"), refused: anew},
		{name: "both withdrawn", node: "a-2", patch: `{"metadata":{"annotations":{"superedgehealth/node-health":null,"superedgehealth/evidence":null}}}`, refused: own},
		{name: "no verdict", node: "a-2", patch: voted("a-1", "maybe"), refused: "a verdict is \"true\""},
		{name: "no word of public SuperEdge's", node: "a-2", patch: set("annotations", names.NodeUnhealthy, "no"), refused: "nodeunhealth is"},
		{name: "much evidence", node: "a-2", patch: set("annotations", names.Evidence, strings.Repeat("x", 4097)), refused: "4096"},
		{name: "another unit", node: "b-1", patch: voted("a-1", "false"), refused: unit},
		{name: "a node without a unit", node: "b-2", patch: voted("a-1", "false"), refused: unit},
		{name: "a taint", node: "a-2", patch: taint, refused: others},
		{name: "a label", node: "a-2", patch: set("labels", "unit", "b"), refused: others},
		{name: "a label gone", node: "a-2", patch: set("labels", "unit", "null"), refused: others},
		{name: "no more pods", node: "a-2", patch: `{"spec":{"unschedulable":true}}`, refused: others},
		{name: "a finalizer", node: "a-2", patch: `{"metadata":{"finalizers":["example.com/x"]}}`, refused: others},
		{name: "an owner", node: "a-2", patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"a-1","uid":"1"}]}}`, refused: others},
		{name: "another annotation", node: "a-2", patch: set("annotations", "example.com/x", "1"), refused: alone},
		{name: "another annotation beside a verdict", node: "a-2", patch: `{"metadata":{"annotations":{"superedgehealth/node-health":"false","x":"y"}}}`, refused: alone},
		{name: "the status", node: "a-2", patch: `{"status":{"phase":"Running"}}`, sub: []string{"status"}, refused: others},
		{name: "a verdict by the status", node: "a-2", patch: vote("false"), sub: []string{"status"}, refused: others},
	})
	try(t, voter(), []attempt{{name: "no node's token", node: "a-2", patch: voted("a-1", "false"), refused: "bound to a node"}})
	try(t, voter("a-1", "b-1"), []attempt{{name: "two nodes' token", node: "a-2", patch: voted("a-1", "false"), refused: "bound to a node"}})
	try(t, voter("b-2"), []attempt{{name: "a voter without a unit", node: "a-2", patch: voted("b-2", "false"), refused: unit}, {name: "on itself", node: "b-2", patch: voted("b-2", "false"), refused: unit}})
	try(t, asWriter(t, "somebody"), []attempt{{name: "an administrator's taint", node: "a-2", patch: taint}, {name: "an administrator's verdict", node: "a-2", patch: vote("maybe")}})
	t.Run("a Node that is not there", func(t *testing.T) {
		_, err := voter("a-1").CoreV1().Nodes().Create(patient(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{DryRun: rehearsed.DryRun})
		if !strings.Contains(fmt.Sprint(err), others) {
			t.Errorf("%v, want a refusal", err)
		}
	})
}

// A kubelet may write its own Node, but no vote, by whichever way; what it may change are
// labels, and with them its unit, unless that is a label of node-restriction.kubernetes.io.
func TestKubeletsDoNotVote(t *testing.T) {
	own := []attempt{
		{name: "its own verdict", node: "a-1", patch: vote("true")},
		{name: "its own verdict by the status", node: "a-1", patch: vote("true"), sub: []string{"status"}},
		{name: "its own evidence", node: "a-1", patch: set("annotations", names.Evidence, "{}")},
		{name: "public SuperEdge's", node: "a-1", patch: set("annotations", names.NodeUnhealthy, "yes")},
	}
	kubelet := as(t, "system:node:a-1", nil, "system:nodes")
	wait.Eventually(t, func() error { // policies of a test before are in force for a moment after they are gone
		_, err := kubelet.CoreV1().Nodes().Patch(patient(t), "a-1", types.MergePatchType, []byte(vote("true")), metav1.PatchOptions{DryRun: rehearsed.DryRun})
		return err
	})
	try(t, kubelet, own) // what NodeRestriction alone lets pass
	votes(t)
	for i := range own {
		own[i].name += ", held to it"
		own[i].refused = "kubelets do not vote"
	}
	try(t, kubelet, append(own,
		attempt{name: "another annotation", node: "a-1", patch: set("annotations", "example.com/x", "1")},
		attempt{name: "its unit", node: "a-1", patch: set("labels", "unit", "b")},
		attempt{name: "a restricted unit", node: "a-1", patch: set("labels", "node-restriction.kubernetes.io/unit", "b"), refused: "not allowed to modify labels"},
		attempt{name: "another Node", node: "a-2", patch: vote("true"), refused: "forbidden"}))
	t.Run("a Node with a verdict", func(t *testing.T) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new", Annotations: map[string]string{names.NodeHealth: "true"}}}
		joining := as(t, "system:node:new", nil, "system:nodes").CoreV1().Nodes()
		if _, err := joining.Create(patient(t), n, metav1.CreateOptions{DryRun: rehearsed.DryRun}); !strings.Contains(fmt.Sprint(err), "kubelets do not vote") {
			t.Errorf("%v, want a refusal", err)
		}
		n.Annotations = nil
		if _, err := joining.Create(patient(t), n, metav1.CreateOptions{DryRun: rehearsed.DryRun}); err != nil {
			t.Errorf("without one it is refused, too: %v", err)
		}
	})
}

// The token that a kubelet gets for a pod of gridmesh-health says which node it is bound to,
// by the API server's own word.
func TestAPodsTokenVotesInItsUnit(t *testing.T) {
	votes(t)
	ctx := patient(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "voter", Namespace: gridmesh},
		Spec: corev1.PodSpec{
			NodeName: "a-1", ServiceAccountName: healthAccount, TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{Name: "voter", Image: "shell", Command: []string{"sleep", "infinity"}}},
		},
	}
	pod, err := c.Kube.CoreV1().Pods(gridmesh).Create(ctx, pod, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, c.Kube.CoreV1().Pods(gridmesh).Delete(patient(t), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	})
	token := func(bound *authenticationv1.BoundObjectReference) kubernetes.Interface {
		got, err := c.Kube.CoreV1().ServiceAccounts(gridmesh).CreateToken(ctx, healthAccount, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
		must(t, err)
		cfg := rest.AnonymousClientConfig(c.RESTConfig())
		cfg.BearerToken = got.Status.Token
		api, err := kubernetes.NewForConfig(cfg)
		must(t, err)
		return api
	}
	bound := token(&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID})
	try(t, bound, []attempt{
		{name: "in its unit", node: "a-2", patch: voted("a-1", "false")},
		{name: "in another", node: "b-1", patch: voted("a-1", "false"), refused: "voter's own unit"},
	})
	try(t, token(nil), []attempt{{name: "bound to nothing", node: "a-2", patch: voted("a-1", "false"), refused: "bound to a node"}})
}
