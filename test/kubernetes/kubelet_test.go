package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const everything = `
apiVersion: v1
kind: ConfigMap
metadata: {name: kitchen}
data: {color: green, file.txt: from a config map}
---
apiVersion: v1
kind: Secret
metadata: {name: kitchen}
stringData: {word: swordfish}
---
apiVersion: v1
kind: Pod
metadata: {name: kitchen, labels: {app: kitchen}, annotations: {note: hello}}
spec:
  nodeName: a-1
  terminationGracePeriodSeconds: 1
  hostname: sink
  subdomain: house
  initContainers:
  - {name: first, image: shell, command: [/bin/sh, -c, "echo ready > /work/init"], volumeMounts: [{name: work, mountPath: /work}]}
  containers:
  - name: main
    image: shell
    command: [/bin/sh, -c]
    args:
    - |
      { echo "init=$(cat /work/init) color=$COLOR word=$WORD name=$NAME ip=$IP note=$NOTE joined=$JOINED host=$(hostname)"
        echo "config=$(cat /config/file.txt) secret=$(cat /secret/word) label=$(cat /info/labels/app)"
        echo "token=$(test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo yes) ca=$(test -s /var/run/secrets/kubernetes.io/serviceaccount/ca.crt && echo yes)"
        echo "dns=$(grep -c '^search default.svc.cluster.local' /etc/resolv.conf) hosts=$(grep -c sink.house.default.svc.cluster.local /etc/hosts) api=$KUBERNETES_SERVICE_HOST"
      } > /host/said
      exec sleep 1000
    env:
    - {name: COLOR, valueFrom: {configMapKeyRef: {name: kitchen, key: color}}}
    - {name: WORD, valueFrom: {secretKeyRef: {name: kitchen, key: word}}}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['note']"}}}
    - {name: JOINED, value: "$(NAME)-$(COLOR)-$$(NAME)-$(NOBODY)"}
    volumeMounts:
    - {name: work, mountPath: /work}
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
    - {name: info, mountPath: /info}
    - {name: host, mountPath: /host}
  volumes:
  - {name: work, emptyDir: {}}
  - {name: config, configMap: {name: kitchen}}
  - {name: secret, secret: {secretName: kitchen}}
  - {name: info, projected: {sources: [{downwardAPI: {items: [{path: labels/app, fieldRef: {fieldPath: "metadata.labels['app']"}}]}}]}}
  - {name: host, hostPath: {path: /var/kitchen, type: DirectoryOrCreate}}
`

// What the stand-in says it honours, it honours.
func TestKubeletStandInHonours(t *testing.T) {
	must(t, c.Apply(everything))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "pod/kitchen", "configmap/kitchen", "secret/kitchen")
		must(t, err)
	})
	pods, err := c.WaitPods(patient(t), "default", "app=kitchen", 1)
	must(t, err)
	var said []byte
	wait.Eventually(t, func() error {
		said, err = os.ReadFile(filepath.Join(c.Nodes["a-1"].Dir, "host/var/kitchen/said"))
		if err == nil && strings.Count(string(said), "\n") < 4 {
			err = fmt.Errorf("only %q so far", said)
		}
		return err
	})
	want := fmt.Sprintf(`init=ready color=green word=swordfish name=kitchen ip=%s note=hello joined=kitchen-green-$(NAME)-$(NOBODY) host=sink
config=from a config map secret=swordfish label=kitchen
token=yes ca=yes
dns=1 hosts=2 api=10.96.0.1
`, pods[0].Status.PodIP)
	if string(said) != want {
		t.Errorf("the pod said\n%swant\n%s", said, want)
	}
	if _, err := edge.Ask(c.Nodes["a-1"].NS, "tcp", mustAddrPort(pods[0].Status.PodIP, 9), time.Second); err == nil {
		t.Error("somebody answers on port 9")
	}
}

const wrong = `
apiVersion: v1
kind: Pod
metadata: {name: nowhere, labels: {app: wrong}}
spec: {nodeName: a-2, containers: [{name: main, image: no/such:image}]}
---
apiVersion: v1
kind: Pod
metadata: {name: crashes, labels: {app: wrong}}
spec: {nodeName: a-2, terminationGracePeriodSeconds: 0, containers: [{name: main, image: shell, command: [/bin/sh, -c, "exit 3"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done, labels: {app: wrong}}
spec: {nodeName: a-2, restartPolicy: Never, containers: [{name: main, image: shell, command: ["true"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: dies, labels: {app: wrong}}
spec:
  nodeName: a-2
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: shell, command: [sleep, "1000"], livenessProbe: {tcpSocket: {port: 9}, periodSeconds: 1, failureThreshold: 1}}]
---
apiVersion: v1
kind: Pod
metadata: {name: fancy, labels: {app: wrong}}
spec:
  nodeName: a-2
  terminationGracePeriodSeconds: 0
  hostPID: true
  containers: [{name: main, image: shell, command: [sleep, "1000"], lifecycle: {postStart: {exec: {command: ["true"]}}}, livenessProbe: {exec: {command: ["true"]}}}]
`

// Statuses are true: unknown images, crashes, completion, failed probes, and
// fields that are not honoured.
func TestKubeletStandInReports(t *testing.T) {
	must(t, c.Apply(wrong))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "pod", "-l", "app=wrong")
		must(t, err)
	})
	for name, check := range map[string]func(p *corev1.Pod) bool{
		"nowhere": func(p *corev1.Pod) bool {
			w := p.Status.ContainerStatuses[0].State.Waiting
			return w != nil && w.Reason == "ImagePullBackOff" && strings.Contains(w.Message, "no/such:image") && p.Status.Phase == corev1.PodPending
		},
		"crashes": func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses[0]
			return s.RestartCount > 0 && s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" && s.LastTerminationState.Terminated != nil && s.LastTerminationState.Terminated.ExitCode == 3
		},
		"done": func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded },
		"dies": func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount > 0 },
		"fancy": func(p *corev1.Pod) bool {
			for _, cond := range p.Status.Conditions {
				if cond.Type == "Honoured" {
					return cond.Status == corev1.ConditionFalse && strings.Contains(cond.Message, "spec.hostPID") &&
						strings.Contains(cond.Message, "lifecycle") && strings.Contains(cond.Message, "livenessProbe.exec")
				}
			}
			return false
		},
	} {
		wait.Eventually(t, func() error {
			p, err := c.Kube.CoreV1().Pods("default").Get(patient(t), name, metav1.GetOptions{})
			if err == nil && (len(p.Status.ContainerStatuses) == 0 || !check(p)) {
				err = fmt.Errorf("%s: %s %+v %+v", name, p.Status.Phase, p.Status.ContainerStatuses, p.Status.Conditions)
			}
			return err
		})
	}
}
