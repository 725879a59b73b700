package walk

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const web = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: app
        image: gridmesh.test/app:1
        imagePullPolicy: Never
        ports: [{name: main, containerPort: 8080}]
        readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {topologyKeys: '["unit"]'}}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: main}]}
`

// till is a grid that is planned alone: its units are the lab's.
const till = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: till}
spec: {gridUniqKey: unit, template: {selector: {matchLabels: {app: till}}, template: {metadata: {labels: {app: till}}, spec: {containers: [{name: till, image: gridmesh.test/app}]}}}}
`

// connect asks who is behind a name, by the resolver of the C library.
var connect = dial("web")

func dial(name string) []string {
	return []string{"bash", "-c", "exec 3<>/dev/tcp/" + name + "/80 && echo who >&3 && head -n 1 <&3"}
}

func words(text string, more ...string) []string { return append(strings.Fields(text), more...) }

// deploy applies the app and returns the name of its pod on a node.
func deploy(t *testing.T, l *lab, node string) string {
	t.Helper()
	if out, code := l.reads(web, "kubectl", "apply", "-f", "-"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	l.comes(words("kubectl rollout status daemonset/web --timeout=5s"))
	out, code := l.does(words("kubectl get pods -l app=web -o name --field-selector", "spec.nodeName="+node)...)
	if code != 0 {
		t.Fatal(out)
	}
	return strings.TrimPrefix(strings.TrimSpace(out), "pod/")
}

// names resolves the app's Service in every way that people have.
func names(t *testing.T, l *lab, node, pod string) {
	t.Helper()
	for _, at := range []string{node, pod} {
		l.comes(words("exec "+at+" --", connect...), "web-")
		l.says(0, words("exec "+at+" lab-worker resolve web.default.svc.cluster.local"), "10.96.")
		if _, err := exec.LookPath("dig"); err == nil {
			l.says(0, words("exec "+at+" -- dig +short web.default.svc.cluster.local"), "10.96.")
		}
	}
}

// A new user's walk through a lab.
func TestWalk(t *testing.T) {
	l := up(t, "--units", "2", "--nodes", "1")
	l.shows("a-1", "stand-in", "agent runs, envoy runs", "runs", "live, last contact", "on disk since")
	l.shows("b-1", "stand-in", "agent runs, envoy runs", "live")
	l.says(0, words("status"), "cut: nothing")
	pod := deploy(t, l, "a-1")
	names(t, l, "a-1", pod)

	for _, state := range []string{"/run/gridmesh/state", "/var/lib/gridmesh"} {
		l.comes(words("exec a-1 gridmesh view -n default --state-dir "+state), "node a-1", "default/web")
	}
	l.ownState("a-1", "b-1")
	l.says(0, words("exec a-1 -- gridmesh view -n default --node a-1 --kubeconfig /run/lab/cluster/pki/admin.kubeconfig"), "default/web")
	l.says(0, words("logs agent a-1"), "level=INFO")
	l.comes(words("logs controller"), "leading")
	l.comes(words("logs dns b-1"), "CoreDNS-")
	l.says(0, words("logs envoy b-1"))
	l.says(2, words("logs agent z"), "there are a-1, b-1")
	l.ownApp()

	l.says(0, words("cut link a b"))
	l.says(0, words("cut uplink a"))
	l.says(0, words("cut node b-1"))
	l.says(0, words("status"), "cut: link a b, uplink a, node b-1")
	names(t, l, "a-1", pod) // without a cloud
	for _, line := range []string{"heal link b a", "heal uplink a", "heal node b-1"} {
		l.says(0, words(line))
	}
	l.says(0, words("status"), "cut: nothing")

	l.says(0, words("kill dns a-1"))
	l.shows("a-1", "envoy runs  stopped")
	l.says(1, words("exec a-1", connect...), "web")
	l.says(1, words("kill dns a-1"), "lab start dns a-1")
	l.says(0, words("start dns a-1"))
	l.comes(words("exec a-1", connect...), "web-")
	l.envoyAway("a-1")

	l.whereTyped()
	l.endsWhenAsked("a-1")
	l.endsWithItsCaller("a-1")
	l.endsWithItsCaller(pod)

	l.controllerAgain()
	l.kubeletAgain("a-1", pod)
	l.says(1, words("kubectl logs", pod), "lab exec POD")
	if out, code := l.does(words("kubectl logs no-such-pod")...); code == 0 || strings.Contains(out, "lab exec POD") {
		t.Errorf("a hint that does not help, exit code %d: %s", code, out)
	}
	l.says(7, words("exec a-1 sh -c", "exit 7"))
	l.says(127, words("exec a-1 -- no-such-program"), "no-such-program")
	l.says(126, words("exec a-1 --", filepath.Join(edge.Root(), "go.mod")), "permission denied")
	l.says(0, words("grid list -A"), "NAMESPACE", "note: there are no grids")
	l.says(2, words("grid lsit"), `unknown command "lsit"`, "did you mean list?")
	l.says(0, words("exec a-1 gridmesh view -n default"), "node a-1", "default/web")
	l.says(0, words("exec b-1 -- gridmesh-agent status"), "node        b-1")
	if out, code := l.reads(till, "grid", "plan", "-f", "-"); code != 0 || !strings.Contains(out, "till-a ") || !strings.Contains(out, "till-b ") {
		t.Errorf("a plan of a grid alone, exit code %d: %s", code, out)
	}
	l.says(0, words("__complete kill agent", ""), "a-1\nb-1\n")
	l.says(1, words("up"), "another lab runs")
	for line, want := range map[string]string{
		"cut link a z":         `unit "z"; there are a, b`,
		"cut node a-2":         `node "a-2"; there are a-1, b-1`,
		"heal uplink z":        "there are a, b",
		"kill agent a-2":       "there are a-1, b-1",
		"kill gent a-1":        "agent|envoy|dns|kubelet|kube-proxy|machine",
		"kill machine a-1":     "no real node",
		"kill agent":           "agent|envoy|dns|kubelet|kube-proxy|machine NODE",
		"start controller a-1": "NODE | controller",
		"exec z true":          "nodes are a-1, b-1",
		"exec a-1":             "nothing to run",
		"stats":                "unknown command",
		"status a-1":           "unknown command",
		"up --units 0":         "between 1 and 9",
		"up --proxy no":        "gridmesh, kube-proxy, none",
	} {
		l.says(2, words(line), want)
	}
	l.down()
}

// kubeletAgain ends a stand-in kubelet, so that the cloud gives its pods up, and starts
// it: the pods are back.
func (l *lab) kubeletAgain(node, pod string) {
	l.t.Helper()
	l.says(0, words("kill kubelet "+node))
	wait.Eventually(l.t, func() error { return l.try(1, words("exec "+node, connect...)) })
	l.says(0, words("start kubelet "+node))
	l.comes(words("exec "+node, connect...), pod)
	l.comes(words("exec "+pod, connect...), pod)
}

// ownApp runs the example of an app of one's own: each unit answers itself, and
// its pods have names, which are the cluster's DNS's to answer.
func (l *lab) ownApp() {
	l.t.Helper()
	l.says(0, words("kubectl apply -f", filepath.Join(edge.Root(), "examples", "lab", "my-app.yaml")))
	l.comes(words("kubectl rollout status statefulset/my-app --timeout=5s"))
	for _, at := range []string{"a-1", "my-app-0"} {
		l.comes(words("exec "+at+" --", dial("my-app")...), "my-app-")
		if _, err := exec.LookPath("curl"); err == nil {
			l.says(0, words("exec "+at+" -- curl -sf http://my-app"), "my-app-")
		}
		l.comes(words("exec "+at+" lab-worker resolve my-app-0.my-app-pods.default.svc.cluster.local"), "10.244.")
	}
	l.says(0, words("kubectl delete --wait=false -f", filepath.Join(edge.Root(), "examples", "lab", "my-app.yaml")))
}

// controllerAgain ends the controller as a lost lease does, and it is started
// again; then as people do, and it is not.
func (l *lab) controllerAgain() {
	l.t.Helper()
	l.says(0, words("status"), "controller: runs")
	killed := 0
	for _, pid := range l.processes() {
		name, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		if number, err := strconv.Atoi(pid); err == nil && bytes.Contains(name, []byte("gridmesh-controller")) {
			must(l.t, syscall.Kill(number, syscall.SIGKILL))
			killed++
		}
	}
	if killed != 1 {
		l.t.Fatalf("%d controllers, want 1", killed)
	}
	l.comes(words("status"), "controller: runs; it ended by itself")
	wait.Eventually(l.t, func() error {
		if out := l.out.String(); !strings.Contains(out, "the controller has ended (exit code ") {
			return fmt.Errorf("the lab does not say so:\n%s", out)
		}
		return nil
	})
	l.says(0, words("kill controller"))
	l.says(0, words("status"), "controller: stopped; start it with: lab start controller")
	l.says(1, words("kill controller"), "does not run")
	l.says(0, words("start controller"))
	l.says(0, words("status"), "controller: runs")
}

// needReal skips where this machine has no real nodes; "make test" says so, too.
func needReal(t *testing.T) {
	t.Helper()
	if missing := realnode.Missing(); missing != nil {
		t.Skipf("REAL NODES ARE LEFT OUT: %v", missing)
	}
}

// The same commands where nodes are real: what is there by deploy/ is seen and
// ended, and what only a kubelet can do is refused.
func TestWalkReal(t *testing.T) {
	needReal(t)
	l := up(t, "--real", "--units", "1", "--nodes", "1")
	l.shows("a-1", "real", "agent runs, envoy runs", "runs", "live, last contact", "on disk since")
	pod := deploy(t, l, "a-1")
	names(t, l, "a-1", pod)
	l.says(0, words("exec a-1 gridmesh-agent status --node-name a-1"), "api server")
	l.says(0, words("kubectl -n gridmesh logs daemonset/gridmesh-envoy"))
	l.comes(words("exec a-1 gridmesh view -n default --node a-1 --state-dir /var/lib/gridmesh"), "default/web")
	l.ownApp()
	l.knowsItsPods("a-1", pod)

	l.says(0, words("kill agent a-1"), "its kubelet starts it again")
	l.comes(words("kubectl -n gridmesh get pods -l app.kubernetes.io/name=gridmesh-agent -o jsonpath={.items[*].status.containerStatuses[*].restartCount}"), "1")
	l.shows("a-1", "agent runs, envoy runs", "live")
	l.says(2, words("start agent a-1"), "the kubelet starts")
	l.says(2, words("kill kubelet a-1"), "say: machine a-1")

	l.says(0, words("kill machine a-1"), "lab start machine a-1")
	l.shows("a-1", "off")
	for _, line := range []string{"exec a-1 true", "kill agent a-1", "kill machine a-1"} {
		l.says(1, words(line), "a-1 is off")
	}
	l.says(0, words("start machine a-1"))
	l.says(1, words("start machine a-1"), "a-1 is on")
	l.shows("a-1", "real", "agent runs, envoy runs", "live")
	l.comes(words("exec a-1", connect...), "web-")
	l.down()
}
