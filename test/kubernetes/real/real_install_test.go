package real

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// newNode is the node that the page calls edge-7.
const newNode = "b-1"

// everythingGone takes gridmesh away from every node, without labels, and holds
// that nothing of it is left, and that nothing is taken away beside an agent.
func everythingGone(t *testing.T) {
	t.Helper()
	kubectl(t, "apply", "-k", filepath.Join(edge.Root(), "deploy/cleanup"))
	wait.Eventually(t, func() error { return allWait(t) })
	for _, n := range c.Nodes {
		if left := traces(t, n); len(left) < 8 {
			t.Errorf("%s serves, and only this is left of it: %q", n.Name, left)
		}
	}
	kubectl(t, "-n", "gridmesh", "delete", "daemonset", "gridmesh-agent", "gridmesh-envoy", "gridmesh-dns")
	kubectl(t, "-n", "gridmesh", "rollout", "status", "daemonset/gridmesh-cleanup", "--timeout=5m")
	for _, n := range c.Nodes {
		if left := traces(t, n); len(left) > 0 {
			t.Errorf("%s is clean, and has:\n%s", n.Name, strings.Join(left, "\n"))
		}
	}
	kubectl(t, "delete", "-k", filepath.Join(edge.Root(), "deploy/cleanup"))
}

func kubectl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := c.Kubectl(args...); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// allWait returns nil once the scheduler has found that no node takes a pod of
// the cleanup.
func allWait(t *testing.T) error {
	t.Helper()
	pods, err := c.Pods(patient(t), "gridmesh", "app.kubernetes.io/name=gridmesh-cleanup")
	if err != nil {
		return err
	}
	waiting := 0
	for _, p := range pods {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Reason == corev1.PodReasonUnschedulable {
				waiting++
			}
		}
		if p.Spec.NodeName != "" {
			t.Fatalf("%s went to %s, which is served", p.Name, p.Spec.NodeName)
		}
	}
	if waiting < len(c.Nodes) {
		return fmt.Errorf("%d of %d pods wait", waiting, len(c.Nodes))
	}
	return nil
}

// The page is walked from top to bottom with kubectl alone: a node of
// kube-proxy's becomes one of gridmesh's, and one of kube-proxy's again, which
// then serves; at the end nothing of gridmesh is left anywhere.
func TestInstallAsWritten(t *testing.T) {
	needReal(t)
	deployed(t)
	n := c.Nodes[newNode]
	if left := traces(t, n); len(left) < 8 {
		t.Fatalf("of a node that serves only this is seen: %q", left)
	}
	everythingGone(t)

	a := deploy(t, "installed", 8080, false)
	t.Cleanup(func() {
		_, err := c.Kubectl("label", "node", newNode, "unit="+n.Unit.Name, "--overwrite")
		must(t, err)
	})
	startProxies(t)
	reached(t, a)
	startClusterDNS(t)

	w := newWalk(t)
	w.until("## Update")
	reached(t, a)
	// That the node's DNS answers a pod is what nslookup ended with: kubectl shows
	// nothing of a program that ends before it is attached.
	for _, word := range []string{"live", "default/installed"} {
		if !strings.Contains(w.said, word) {
			t.Errorf("what the agent says by kubectl exec lacks %q:\n%s", word, w.said)
		}
	}
	if left := traces(t, n); len(left) < 8 {
		t.Errorf("gridmesh serves, and this is all of it: %q", left)
	}

	w.until("**All of it.**")
	if left := traces(t, n); len(left) > 0 {
		t.Errorf("%s has still:\n%s", newNode, strings.Join(left, "\n"))
	}
	reached(t, a)
	w.until("")
	w.byHelm()
	if out, err := c.Kubectl("get", "namespace,crd,clusterrole,clusterrolebinding", "-A", "-o", "name"); err != nil || strings.Contains(out, "gridmesh") || strings.Contains(out, "superedge") {
		t.Errorf("the cluster has still: %v\n%s", err, out)
	}
}

// reached waits until a pod of the node reaches a Service of its unit.
func reached(t *testing.T, a *app) {
	t.Helper()
	reachedFrom(t, a.ns(t, newNode), a.to)
}

// oldProxy is kube-proxy as a cluster has it.
const oldProxy = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-proxy, namespace: kube-system, labels: {k8s-app: kube-proxy}}
spec:
  selector: {matchLabels: {k8s-app: kube-proxy}}
  template:
    metadata: {labels: {k8s-app: kube-proxy}}
    spec:
      hostNetwork: true
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      containers:
      - name: kube-proxy
        image: IMAGE
        command: [kube-proxy, "--config=CONFIGS/$(NODE)/kube-proxy.yaml"]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        securityContext: {privileged: true}
        volumeMounts: [{name: host, mountPath: /host}]
      volumes: [{name: host, hostPath: {path: /}}]
`

// startProxies has kube-proxy on each node as long as no label keeps it away, and
// nothing of it after the test. Without one the controller, which goes to any node,
// does not reach the API server.
func startProxies(t *testing.T) {
	t.Helper()
	var dir string // has one for each node
	for _, n := range c.Nodes {
		config, err := n.KubeProxyConfig()
		must(t, err)
		dir = filepath.Dir(filepath.Dir(config))
	}
	must(t, c.Apply(strings.NewReplacer("IMAGE", cluster.KubeProxyImage, "CONFIGS", dir).Replace(oldProxy)))
	t.Cleanup(func() {
		_, err := c.Kubectl("-n", "kube-system", "delete", "daemonset", "kube-proxy", "--cascade=foreground")
		must(t, err)
		for _, n := range c.Nodes {
			var out bytes.Buffer
			cmd := exec.Command(edge.Binary("kube"), "kube-proxy", "--cleanup")
			cmd.Stdout, cmd.Stderr = &out, &out
			must(t, n.NS.Start(cmd))
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: kube-proxy --cleanup: %v: %s", n.Name, err, out.String())
			}
		}
	})
	kubectl(t, "-n", "kube-system", "rollout", "status", "daemonset/kube-proxy", "--timeout=5m")
	for _, n := range c.Nodes { // else who dials before is known to conntrack as not translated, and kube-proxy refuses his port for two minutes
		wait.Eventually(t, func() error {
			cmd := exec.Command("nft", "list", "map", "ip", "kube-proxy", "service-ips")
			if err := n.NS.Start(cmd); err != nil {
				return err
			}
			return cmd.Wait()
		})
	}
}

// walk runs the commands of docs/install.md.
type walk struct {
	t      *testing.T
	page   string
	dir    string   // where they run
	blocks []string // still to come: text and fenced commands
	said   string   // by the last part
	told   refusals // of the nodes
}

// replaced are what a reader replaces, too.
var replaced = strings.NewReplacer("registry.example/gridmesh/", "docker.io/gridmesh/", "NODE=edge-7", "NODE="+newNode)

func newWalk(t *testing.T) *walk {
	t.Helper()
	w := &walk{t: t, dir: t.TempDir(), told: refusals{}}
	w.page = w.read("docs/install.md")
	w.blocks = regexp.MustCompile("(?m)^```").Split(w.page, -1) // every second one is commands
	must(t, os.CopyFS(filepath.Join(w.dir, "deploy"), os.DirFS(filepath.Join(edge.Root(), "deploy"))))
	kubeconfig, err := os.ReadFile(c.Kubeconfig)
	must(t, err)
	for _, dir := range []string{".kube", "bin"} {
		must(t, os.Mkdir(filepath.Join(w.dir, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(w.dir, ".kube/config"), kubeconfig, 0o600))
	for _, name := range []string{"gridmesh", "helm"} {
		must(t, os.Symlink(edge.Binary(name), filepath.Join(w.dir, "bin", name)))
	}
	must(t, os.WriteFile(filepath.Join(w.dir, "bin/kubectl"), fmt.Appendf(nil, "#!/bin/sh\nexec %s kubectl --cache-dir %s/cache \"$@\"\n", edge.Binary("kube"), w.dir), 0o755))
	return w
}

// until runs what comes before a text of the page; all of it where that is empty.
func (w *walk) until(text string) {
	w.t.Helper()
	w.said = ""
	ran := 0
	for i := 0; len(w.blocks) > 1; i++ {
		prose, commands := w.blocks[0], w.blocks[1]
		if text != "" && strings.Contains(prose, text) {
			if ran == 0 {
				w.t.Fatalf("nothing comes before %q", text)
			}
			return
		}
		w.blocks = w.blocks[2:]
		commands, isShell := strings.CutPrefix(commands, "sh\n")
		if !isShell {
			w.t.Fatalf("docs/install.md has commands of another language: %s", commands)
		}
		w.run(commands)
		ran++
	}
	if text != "" {
		w.t.Fatalf("docs/install.md has no %q with commands behind it", text)
	}
}

func (w *walk) run(commands string) {
	w.t.Helper()
	start := time.Now()
	var out bytes.Buffer
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", "NODE="+newNode+"\n"+replaced.Replace(commands))
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, &out, &out
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "PATH="+filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH"))
	must(w.t, c.Lab.Cloud.Start(cmd))
	if err := cmd.Wait(); err != nil {
		w.t.Fatalf("%s\n%v:\n%s", commands, err, out.String())
	}
	w.t.Logf("from %s %s:\n%s%s", start.Format("15:04:05.000"), time.Since(start).Round(10*time.Millisecond), commands, out.String())
	w.said += out.String()
	w.told.say(w.t)
}

// traces are what is seen of gridmesh on a node: tables, rules, routes,
// addresses, sysctls, files, sockets.
func traces(t *testing.T, n *cluster.Node) (list []string) {
	t.Helper()
	conn, err := n.NS.NFT()
	must(t, err)
	tables, err := conn.ListTables()
	must(t, err)
	for _, table := range tables {
		if strings.HasPrefix(table.Name, "gridmesh") {
			list = append(list, "table "+table.Name)
		}
	}
	must(t, n.NS.Do(func() error {
		kernel, err := kernelTraces()
		list = append(list, kernel...)
		return err
	}))
	for _, dir := range []string{realnode.GridmeshDir, "lib/gridmesh"} {
		files, err := os.ReadDir(filepath.Join(n.Dir, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, f := range files {
			list = append(list, "file "+filepath.Join(dir, f.Name()))
		}
	}
	return list
}

func kernelTraces() (list []string, err error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := netlink.RuleList(family)
		if err != nil {
			return nil, err
		}
		for i := range rules {
			if rules[i].Mark != 0 {
				list = append(list, "rule "+rules[i].String())
			}
		}
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: 15001}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return nil, err
		}
		for i := range routes {
			list = append(list, "route "+routes[i].String())
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	addrs, err := netlink.AddrList(lo, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	for i := range addrs {
		for _, ip := range edge.NodeDNS {
			if addrs[i].IP.String() == ip {
				list = append(list, "address "+ip)
			}
		}
	}
	demux, err := os.ReadFile("/proc/sys/net/ipv4/tcp_early_demux")
	if err == nil && strings.TrimSpace(string(demux)) != "1" {
		list = append(list, "sysctl net.ipv4.tcp_early_demux")
	}
	return list, err
}
