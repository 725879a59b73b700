package convert

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// What an API server keeps of a Service that is put over another, and what not.
func TestPutOver(t *testing.T) {
	const live = `{type: LoadBalancer, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, "fd00::1"], externalTrafficPolicy: Local, healthCheckNodePort: 32000, ports: [{name: a, port: 80, nodePort: 30080}, {name: b, port: 81, nodePort: 30081}]}`
	for name, test := range map[string]struct{ spec, want string }{
		"all of it":         {`{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{name: b, port: 91}, {name: a, port: 80}]}`, `{type: LoadBalancer, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, "fd00::1"], externalTrafficPolicy: Local, healthCheckNodePort: 32000, ports: [{name: b, port: 91, nodePort: 30081}, {name: a, port: 80, nodePort: 30080}]}`},
		"another type":      {`{ports: [{name: a, port: 80}]}`, `{clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, "fd00::1"], ports: [{name: a, port: 80}]}`},
		"names alone":       {`{type: ExternalName, externalName: example.com}`, `{type: ExternalName, externalName: example.com}`},
		"another address":   {`{clusterIP: 10.96.0.2}`, `{clusterIP: 10.96.0.2}`},
		"the same address":  {`{clusterIP: 10.96.0.1}`, `{clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, "fd00::1"]}`},
		"a node port taken": {`{type: NodePort, clusterIP: None, ports: [{name: a, port: 80}, {name: c, port: 82, nodePort: 30080}]}`, `{type: NodePort, clusterIP: None, ports: [{name: a, port: 80}, {name: c, port: 82, nodePort: 30080}]}`},
		"no node ports":     {`{type: LoadBalancer, clusterIP: None, allocateLoadBalancerNodePorts: false, ports: [{name: a, port: 80}]}`, `{type: LoadBalancer, clusterIP: None, allocateLoadBalancerNodePorts: false, ports: [{name: a, port: 80}]}`},
	} {
		read := func(spec string) *corev1.Service {
			s := &corev1.Service{}
			if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
				t.Fatal(err)
			}
			return s
		}
		was, written := read(live), read(test.spec)
		was.UID, was.CreationTimestamp = "u", metav1.Unix(1, 0)
		was.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		got := PutOver(was, written)
		if is, want := text(t, got.Spec), text(t, read(test.want).Spec); is != want {
			t.Errorf("%s: %s, want %s", name, is, want)
		}
		if kept := len(got.Status.LoadBalancer.Ingress) == 1; got.UID != "u" || !got.CreationTimestamp.Equal(&was.CreationTimestamp) || kept != (got.Spec.Type == corev1.ServiceTypeLoadBalancer) {
			t.Errorf("%s: %+v", name, got)
		}
		if again := PutOver(written, got); again != got {
			t.Errorf("%s: what an API server told is changed by what is written", name)
		}
		if PutOver(nil, written) != written || text(t, written.Spec) != text(t, read(test.spec).Spec) {
			t.Errorf("%s: what is written is changed", name)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What a manifest does not name of labels and annotations stays, but for what was
// applied before and is named no longer: as with kubectl apply.
func TestPutOverKeepsWhatOthersNamed(t *testing.T) {
	applied := func(annotations, labels string) string {
		return `{"metadata": {"annotations": ` + annotations + `, "labels": ` + labels + `}}`
	}
	const last = corev1.LastAppliedConfigAnnotation
	for name, test := range map[string]struct {
		applied, written, want string
	}{
		"nothing applied": {"", `{}`, `{a: live, topologyKeys: live}`},
		"named":           {"", `{topologyKeys: new}`, `{a: live, topologyKeys: new}`},
		"named no longer": {applied(`{"topologyKeys": "live"}`, `{"topologyKeys": "live"}`), `{b: new}`, `{a: live, b: new}`},
		"named as empty":  {applied(`{"topologyKeys": "live"}`, `{"topologyKeys": "live"}`), `{topologyKeys: ""}`, `{a: live, topologyKeys: ""}`},
		"unreadable":      {"{", `{b: new}`, `{a: live, b: new, topologyKeys: live}`},
	} {
		read := func(text string) (m map[string]string) {
			if err := yaml.Unmarshal([]byte(text), &m); err != nil {
				t.Fatal(err)
			}
			return m
		}
		live, written := &corev1.Service{}, &corev1.Service{}
		live.UID, live.Labels, live.Annotations = "u", read(`{a: live, topologyKeys: live}`), read(`{a: live, topologyKeys: live}`)
		if test.applied != "" {
			live.Annotations[last] = test.applied
		}
		before := text(t, live)
		written.Labels, written.Annotations = read(test.written), read(test.written)
		got := PutOver(live, written)
		delete(got.Annotations, last)
		if want := text(t, read(test.want)); text(t, got.Labels) != want || text(t, got.Annotations) != want {
			t.Errorf("%s: labels %s, annotations %s, want %s", name, text(t, got.Labels), text(t, got.Annotations), want)
		}
		if text(t, live) != before || text(t, written.Labels) != text(t, read(test.written)) {
			t.Errorf("%s: what is put over or below is changed", name)
		}
	}
}
