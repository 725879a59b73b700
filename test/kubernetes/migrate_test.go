package kubernetes

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// What runs while nodes migrate: endpoints in unit c alone, clients besides them. Of the
// Service migrate-shut kube-proxy ignores the keys, by which no node has an endpoint.
const migrating = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: migrate}
spec:
  replicas: 4
  selector: {matchLabels: {app: migrate}}
  template:
    metadata: {labels: {app: migrate}}
    spec:
      nodeSelector: {unit: c}
      containers: [{name: app, image: gridmesh.test/app, ports: [{name: main, containerPort: 8080}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: migrate-client}
spec:
  selector: {matchLabels: {app: migrate-client}}
  template:
    metadata: {labels: {app: migrate-client}}
    spec:
      nodeSelector: {unit: c}
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: gridmesh.test/app}]
---
apiVersion: v1
kind: Service
metadata: {name: migrate}
spec: {type: NodePort, ipFamilyPolicy: RequireDualStack, selector: {app: migrate}, ports: [{port: 80, targetPort: main}]}
---
apiVersion: v1
kind: Service
metadata: {name: migrate-keys, annotations: {topologyKeys: '["unit"]'}}
spec: {ipFamilyPolicy: RequireDualStack, selector: {app: migrate}, ports: [{port: 80, targetPort: main}]}
---
apiVersion: v1
kind: Service
metadata: {name: migrate-shut, annotations: {topologyKeys: '["no-such-label"]'}}
spec: {ipFamilyPolicy: RequireDualStack, selector: {app: migrate}, ports: [{port: 80, targetPort: main}]}
`

// migration is a node on its way, and who dials through it.
type migration struct {
	node           *cluster.Node
	mode           cluster.KubeProxyMode
	hidden         bool // the agent sees no process of kube-proxy's
	pod, elsewhere *netlab.NS
	open           []netip.AddrPort // that everybody reaches, whoever serves
	keys, shut     netip.AddrPort   // of which gridmesh keeps the keys
	door           netip.AddrPort   // a node port
}

var (
	errFirst  = errors.New("another has the first word over it")
	errSilent = errors.New("it does not say so")
)

// A node goes from kube-proxy to gridmesh and back, without a connection that fails, and
// the open ones go on: beside one that lives, then beside what it left, then alone, and back.
func TestMigration(t *testing.T) {
	if missing := edge.MissingForKubeProxy(); missing != nil {
		t.Skipf("KUBE-PROXY IS LEFT OUT: %v", missing)
	}
	beside(t, "c")
	must(t, c.Apply(migrating))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--wait=true", "deployment/migrate", "daemonset/migrate-client", "service/migrate", "service/migrate-keys", "service/migrate-shut")
		must(t, err)
	})
	_, err := c.WaitPods(patient(t), "default", "app=migrate", 4)
	must(t, err)
	clients, err := c.WaitPods(patient(t), "default", "app=migrate-client", 2)
	must(t, err)
	// One routed and one bridged, in each mode at the other one.
	list := []*migration{{node: c.Nodes["c-1"], mode: cluster.NftablesMode}, {node: c.Nodes["c-2"], mode: cluster.IptablesMode, hidden: true}}
	for i, m := range list {
		m.elsewhere = list[1-i].node.NS
		m.find(t, clients)
	}
	t.Run("both", func(t *testing.T) {
		for _, m := range list {
			t.Run(string(m.mode), func(t *testing.T) {
				t.Parallel()
				m.run(t)
			})
		}
	})
}

func (m *migration) find(t *testing.T, clients []corev1.Pod) {
	t.Helper()
	for i := range clients {
		if clients[i].Spec.NodeName == m.node.Name {
			ns, err := netlab.OpenNS("pod-" + string(clients[i].UID))
			must(t, err)
			m.pod = ns
		}
	}
	at := func(name string) (list []netip.AddrPort, nodePort uint16) {
		svc, err := c.Kube.CoreV1().Services("default").Get(patient(t), name, metav1.GetOptions{})
		must(t, err)
		for _, ip := range svc.Spec.ClusterIPs {
			list = append(list, mustAddrPort(ip, 80))
		}
		return list, uint16(svc.Spec.Ports[0].NodePort)
	}
	plain, port := at("migrate")
	keys, _ := at("migrate-keys")
	shut, _ := at("migrate-shut")
	m.door = netip.AddrPortFrom(m.node.IP, port)
	m.open = slices.Concat(plain, keys, []netip.AddrPort{m.door})
	m.keys, m.shut = keys[0], shut[0]
}

func (m *migration) run(t *testing.T) {
	n := m.node
	must(t, n.StartKubeProxy(m.mode))
	t.Cleanup(func() { m.leave(t) })
	m.served(t, "by kube-proxy", true)
	before := m.hold(t, "from kube-proxy's time")
	dials := load.Start(t, []*netlab.NS{n.NS, m.pod}, m.open...)
	outside := load.Start(t, []*netlab.NS{m.elsewhere}, m.door)
	more := func() { dials.More(t, 60); outside.More(t, 20) }
	more()
	m.step(t, 0, "start the agent beside kube-proxy", "--dry-run")
	m.step(t, 0, "conntrack.maxPerCore: 0", "--dry-run")

	m.start(t, "--datapath=auto", "--take-over=kube-proxy")
	must(t, n.StartEnvoy())
	m.served(t, "beside a kube-proxy that lives", false)
	m.says(t, "kube-proxy runs")
	m.step(t, 3, "stop kube-proxy on this node")
	more()
	m.restart(t)
	more()
	n.KubeProxy.Signal(syscall.SIGTERM)
	took := wait.Eventually(t, func() error { return m.rules(t, false) })
	t.Logf("%s: what kube-proxy left was gone %s after its end", m.mode, took.Round(time.Millisecond))
	m.step(t, 0, "Envoy gets", "--dry-run")
	more()
	took = wait.Eventually(t, func() error {
		if out, err := n.Run("status"); err != nil || strings.Contains(string(out), "kube-proxy") {
			return fmt.Errorf("status: %w\n%s", err, out)
		}
		return nil
	})
	t.Logf("%s: Envoy got connections %s later", m.mode, took.Round(time.Millisecond))
	m.step(t, 0, "")
	m.served(t, "alone", false)
	more()

	n.Agent.Signal(syscall.SIGTERM)
	m.start(t, "--datapath=kernel")
	m.says(t, "0 frontends by Envoy")
	m.step(t, 3, "start kube-proxy, behind gridmesh's rules", "--back")
	during := m.hold(t, "from gridmesh's time")
	more()
	must(t, n.StartKubeProxy(m.mode))
	wait.Eventually(t, func() error { return m.rules(t, true) })
	m.served(t, "before kube-proxy", false)
	more()
	m.step(t, 3, "stop gridmesh's programs", "--back")
	n.Agent.Signal(syscall.SIGTERM)
	m.step(t, 3, "cleanup --files --hand-over=kube-proxy", "--back")
	if out, err := n.Run("cleanup", "--hand-over=kube-proxy"); err != nil {
		t.Errorf("cleanup: %v\n%s", err, out)
	}
	m.step(t, 0, "", "--back")
	m.served(t, "by kube-proxy again", true)
	more()
	before(t)
	during(t)
	load.NoneFailed(t, string(m.mode)+", from the host and a pod", dials.Stop())
	load.NoneFailed(t, string(m.mode)+", from another node", outside.Stop())
}

// restart starts kube-proxy anew, as an update of it does: its rules stay a living one's.
func (m *migration) restart(t *testing.T) {
	t.Helper()
	m.node.KubeProxy.Signal(syscall.SIGTERM)
	time.Sleep(3 * time.Second) // an outage: for as long as its next pod takes
	must(t, m.node.StartKubeProxy(m.mode))
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if err := m.rules(t, true); err != nil {
			t.Fatalf("a living kube-proxy's rules are gone: %v", err)
		}
	}
	m.says(t, "kube-proxy runs")
}

// start starts the agent on the node.
func (m *migration) start(t *testing.T, flags ...string) {
	t.Helper()
	kubeconfig, err := c.AgentKubeconfig()
	must(t, err)
	m.node.Flags = append([]string{"--kubeconfig", kubeconfig}, flags...)
	if m.hidden {
		must(t, m.node.StartHiddenAgent())
		return
	}
	must(t, m.node.StartAgent())
}

// served waits until kube-proxy or gridmesh has the first word over new connections.
func (m *migration) served(t *testing.T, when string, byKubeProxy bool) {
	t.Helper()
	for _, ns := range []*netlab.NS{m.node.NS, m.pod} {
		wait.Eventually(t, func() error {
			var errs []error
			for _, to := range m.open {
				_, err := edge.Ask(ns, "tcp", to, answers["tcp"])
				errs = append(errs, err)
			}
			_, err := edge.Ask(ns, "tcp", m.shut, time.Second)
			if (err == nil) != byKubeProxy {
				errs = append(errs, fmt.Errorf("a Service that gridmesh keeps shut: %w", errors.Join(err, errFirst)))
			}
			if err := errors.Join(errs...); err != nil {
				return fmt.Errorf("%s, %s: %w", ns.Name, when, err)
			}
			return nil
		})
	}
}

func (m *migration) says(t *testing.T, want string) {
	t.Helper()
	wait.Eventually(t, func() error {
		out, err := m.node.Run("status")
		if err == nil && !strings.Contains(string(out), want) {
			err = errSilent
		}
		if err != nil {
			return fmt.Errorf("status does not say %q: %w\n%s\n%s", want, err, out, m.node.Agent.Log())
		}
		return nil
	})
}

// step asks gridmesh on the node what is next, and compares its exit code and what it says.
func (m *migration) step(t *testing.T, code int, says string, flags ...string) {
	t.Helper()
	p, err := edge.Start(m.node.NS, "gridmesh", append([]string{edge.Binary("gridmesh"), "node", "migrate", "--status-socket", m.node.Dir + "/agent.sock"}, flags...)...)
	must(t, err)
	if got := p.ExitCode(); got != code || !strings.Contains(p.Log(), says) {
		t.Errorf("gridmesh node migrate %s: exit code %d, want %d and %q:\n%s", strings.Join(flags, " "), got, code, says, p.Log())
	}
}

// rules is an error unless kube-proxy's rules of both families are there, or gone.
func (m *migration) rules(t *testing.T, there bool) error {
	t.Helper()
	conn, err := m.node.NS.NFT()
	must(t, err)
	chains, err := conn.ListChains()
	if err != nil {
		return err
	}
	families := map[byte]bool{}
	for _, chain := range chains {
		if chain.Table.Name == "kube-proxy" || chain.Name == "KUBE-SERVICES" {
			families[byte(chain.Table.Family)] = true
		}
	}
	if want := map[bool]int{true: 2}[there]; len(families) != want {
		return fmt.Errorf("%d families have rules of kube-proxy, want %d:\n%s", len(families), want, m.node.Agent.Log())
	}
	return nil
}

// hold opens a connection from the pod, and returns what asks over it at the end.
func (m *migration) hold(t *testing.T, what string) func(t *testing.T) {
	t.Helper()
	conn, err := m.pod.Dial(patient(t), "tcp", m.open[0].String())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return func(t *testing.T) {
		t.Helper()
		_ = conn.SetDeadline(time.Now().Add(answers["tcp"]))
		if _, err := fmt.Fprintln(conn, "who"); err != nil {
			t.Errorf("an open connection %s: %v", what, err)
			return
		}
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("an open connection %s: %v", what, err)
		}
	}
}

// leave leaves the node as it was: without a proxy.
func (m *migration) leave(t *testing.T) {
	n := m.node
	if t.Failed() {
		t.Logf("kube-proxy:\n%s", n.KubeProxy.Log())
		if n.Agent != nil {
			t.Logf("agent:\n%s", n.Agent.Log())
		}
	}
	for _, p := range []*edge.Process{n.Envoy, n.Agent, n.KubeProxy} {
		if p != nil {
			p.Kill()
		}
	}
	if n.Agent != nil {
		if out, err := n.Run("cleanup"); err != nil {
			t.Errorf("cleanup: %v\n%s", err, out)
		}
	}
	p, err := edge.Start(n.NS, "kube-proxy --cleanup", edge.Binary("kube"), "kube-proxy", "--cleanup")
	must(t, err)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("kube-proxy --cleanup: exit code %d\n%s", code, p.Log())
	}
	n.Agent, n.Envoy, n.KubeProxy, n.Flags = nil, nil, nil, nil
}
