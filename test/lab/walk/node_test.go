package walk

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// asks are the words for a page of a node's health, with its status line.
func asks(node, path string) []string {
	return words("exec "+node+" -- bash -c", `exec 3<>/dev/tcp/127.0.0.1/10256 && printf 'GET `+path+` HTTP/1.0\r\n\r\n' >&3 && cat <&3`)
}

// envoyAway ends an Envoy: its agent stays healthy, for the kernel serves what it served,
// and says so.
func (l *lab) envoyAway(node string) {
	l.t.Helper()
	l.comes(asks(node, "/healthz"), " 200 OK\r\n")
	l.says(0, words("kill envoy "+node))
	l.comes(words("exec "+node+" gridmesh-agent status"), "the kernel serves the first tier of what it served")
	l.says(0, words("exec "+node, connect...), "web-")
	l.says(0, asks(node, "/healthz"), " 200 OK\r\n")
	l.says(0, asks(node, "/livez"), " 200 OK\r\n")
	l.says(0, words("start envoy "+node))
	l.comes(asks(node, "/healthz"), " 200 OK\r\n")
}

// knowsItsPods: a trace knows a pod of the node, by its agent and by the API
// server, where nobody has said which addresses pods have: not deploy/ to the
// agent (--pod-cidr), and not who asks.
func (l *lab) knowsItsPods(node, pod string) {
	l.t.Helper()
	if args, code := l.does(words("kubectl -n gridmesh get daemonset gridmesh-agent -o jsonpath={.spec.template.spec.containers[0].args}")...); code != 0 || strings.Contains(args, "--pod-cidr") {
		l.t.Fatalf("the agent is started with %s", args)
	}
	from, _ := l.does(words("kubectl get pod -o jsonpath={.status.podIP}", pod)...)
	to, _ := l.does(words("kubectl get service -o jsonpath={.spec.clusterIP} web")...)
	trace := "gridmesh trace --node " + node + " --from " + from + " --to " + to + ":80"
	known := from + " is a pod of this node: its address is kept"
	l.comes(words("exec "+node+" -- "+trace), known)
	config, code := l.does(words("kubectl config view --raw --flatten")...)
	if code != 0 {
		l.t.Fatal(config)
	}
	out, code := l.reads(config, words("exec "+node+" -- sh -c", "cat >/run/kubeconfig && exec "+trace+" --kubeconfig /run/kubeconfig")...)
	if code != 0 || !strings.Contains(out, known) {
		l.t.Errorf("by the API server, exit code %d: %s", code, out)
	}
}

// ownState: what a program writes where gridmesh keeps state is the node's, and
// neither another's nor the machine's, of which the rest is there.
func (l *lab) ownState(node, other string) {
	l.t.Helper()
	for _, dir := range []string{"/var/lib/gridmesh", "/var/lib/gridmesh-health", "/run/gridmesh-health"} {
		path := dir + "/lab-was-here"
		l.says(0, words("exec "+node+" -- sh -c", "echo here >"+path))
		l.says(0, words("exec "+node+" -- cat "+path), "here")
		l.says(1, words("exec "+other+" -- cat "+path), "No such file")
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(path)
			l.t.Errorf("%s is on the machine: %v", path, err)
		}
	}
	list, err := os.ReadDir("/var/lib")
	must(l.t, err)
	names := []string{"gridmesh", "gridmesh-health"}
	for _, e := range list {
		names = append(names, e.Name())
	}
	l.says(0, words("exec "+node+" -- ls /var/lib"), names...)
}
