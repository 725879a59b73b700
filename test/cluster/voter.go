package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// UnitKey is the label of a cluster's units.
const UnitKey = "unit"

// voterToken is for how long the token of a daemon is good, in seconds.
const voterToken = 24 * 3600

// Voter starts gridmesh-health on a node, with a token of its own node as a pod of deploy/ has it. It checks others
// by what their agents serve. HealthRights come first.
func (c *Cluster) Voter(ctx context.Context, node string, flags ...string) (*edge.Process, error) {
	dir := filepath.Join(c.dir, "health")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, node+".kubeconfig")
	if _, err := os.Stat(path); err != nil { // it may begin again without a cloud
		config, err := c.voterKubeconfig(ctx, node)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			return nil, err
		}
	}
	return edge.Start(c.Nodes[node].NS, "health", append([]string{
		edge.Binary("gridmesh-health"), "--kubeconfig", path, "--node-name", node, "--unit-key", UnitKey, "--key-file", key, "--state-file", filepath.Join(dir, node+".unit"),
		"--pingplugin", "timeout=1,retrytime=3,weight=1,port=10256", // which the agent of each node serves
	}, flags...)...)
}

func (c *Cluster) voterKubeconfig(ctx context.Context, node string) (string, error) {
	live, err := c.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	admin := c.RESTConfig()
	if err := rest.LoadTLSFiles(admin); err != nil {
		return "", err
	}
	token, err := c.Kube.CoreV1().ServiceAccounts("gridmesh").CreateToken(ctx, "gridmesh-health", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](voterToken), BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Node", APIVersion: "v1", Name: node, UID: live.UID,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "%s", certificate-authority-data: "%s"}}]
users: [{name: u, user: {token: "%s"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, admin.Host, base64.StdEncoding.EncodeToString(admin.CAData), token.Status.Token), nil
}
