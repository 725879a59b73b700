package health

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// c is the cluster of all tests here: a unit of three nodes, and one of two.
var c *cluster.Cluster

func TestMain(m *testing.M) {
	sandbox.Run(func() int {
		ctx, cancel := context.WithTimeout(context.Background(), 2*wait.Patience)
		defer cancel()
		r := netlab.Routed
		var err error
		c, err = cluster.Up(ctx, cluster.Config{
			Lab:          netlab.Config{Units: []netlab.UnitConfig{{Name: "a", Nodes: []netlab.PodNetwork{r, r, r}}, {Name: "b", Nodes: []netlab.PodNetwork{r, r}}}},
			Proxy:        map[string]string{"": "gridmesh"},
			NodeGrace:    50 * time.Second, // as Kubernetes has it: who votes has to be faster
			AgentFlagsOf: map[string][]string{"a-1": {"--dead-nodes-file", deadNodes("a-1")}},
			Say:          func(format string, args ...any) { fmt.Printf("cluster: "+format+"\n", args...) },
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	t.Cleanup(cancel)
	return ctx
}

// voter is a node's daemon.
type voter struct {
	*edge.Process
	flags []string
	node  *cluster.Node
}

func (v *voter) start(t *testing.T) {
	t.Helper()
	p, err := edge.Start(v.node.NS, "health", append([]string{edge.Binary("gridmesh-health")}, v.flags...)...)
	must(t, err)
	v.Process = p
}

// voters starts a daemon on each node, each with a token of its own node.
func voters(t *testing.T, nodes ...string) map[string]*voter {
	t.Helper()
	must(t, c.HealthRights())
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	must(t, os.WriteFile(key, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600))
	all := map[string]*voter{}
	for _, name := range nodes {
		config := filepath.Join(dir, name+".kubeconfig")
		must(t, os.WriteFile(config, []byte(kubeconfig(t, name)), 0o600))
		v := &voter{node: c.Nodes[name], flags: []string{
			"--kubeconfig", config, "--node-name", name, "--unit-key", "unit", "--key-file", key, "--state-file", filepath.Join(dir, name+".unit"),
			"--pingplugin", "timeout=1,retrytime=3,weight=1,port=10256", // which the agent of each node serves
			"--dead-nodes-file", deadNodes(name),
		}}
		v.start(t)
		all[name] = v
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the daemon of %s:\n%s", name, v.Log())
			}
			v.Kill()
		})
	}
	return all
}

// kubeconfig is that of gridmesh-health on a node, as a pod of its has it.
func kubeconfig(t *testing.T, node string) string {
	t.Helper()
	live, err := c.Kube.CoreV1().Nodes().Get(patient(t), node, metav1.GetOptions{})
	must(t, err)
	day := int64(24 * 3600)
	admin := c.RESTConfig()
	must(t, rest.LoadTLSFiles(admin))
	token, err := c.Kube.CoreV1().ServiceAccounts("gridmesh").CreateToken(patient(t), "gridmesh-health", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day, BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Node", APIVersion: "v1", Name: node, UID: live.UID,
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "%s", certificate-authority-data: "%s"}}]
users: [{name: u, user: {token: "%s"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, admin.Host, base64.StdEncoding.EncodeToString(admin.CAData), token.Status.Token)
}

// policies waits until the controller has installed what keeps a shielded node's pods, and
// holds votes.
func policies(t *testing.T) {
	t.Helper()
	wait.Eventually(t, func() error {
		out, err := c.Kubectl("get", "mutatingadmissionpolicybinding/gridmesh-shield-pods", "validatingadmissionpolicybinding/gridmesh-votes-lease-unit")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}

// controller starts gridmesh-controller, which keeps the shield.
func controller(t *testing.T) {
	t.Helper()
	must(t, c.HealthRights())
	config, err := c.ControllerKubeconfig()
	must(t, err)
	p, err := c.StartController(config, "--health-unit-key", "unit")
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the controller:\n%s", p.Log())
		}
		p.Kill()
	})
}

// deadNodes is where a node's daemon tells whom the unit votes dead.
func deadNodes(node string) string { return filepath.Join(sandbox.Dir, "dead", node) }
