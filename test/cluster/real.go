package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/cgroup"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// addReal makes a node with the real kubelet and containerd, and boots it.
func (c *Cluster) addReal(ctx context.Context, e *edge.Node) error {
	if e.Network != netlab.Bridged {
		return fmt.Errorf("node %s: a real node's pods hang on a bridge; its network must be %s", e.Name, netlab.Bridged)
	}
	if err := c.register(ctx, e); err != nil {
		return err
	}
	kubeconfig, err := c.pki.kubeconfig("node-"+e.Name, "system:node:"+e.Name, "system:nodes", server())
	if err != nil {
		return err
	}
	serving := "kubelet-" + e.Name
	if err := c.pki.issue(serving, "system:node:"+e.Name, "system:nodes", []net.IP{e.IP.AsSlice(), e.IP6.AsSlice()}, []string{e.Name}); err != nil {
		return err
	}
	lab := os.Getenv(cgroup.Env)
	if lab == "" {
		return fmt.Errorf("%s is not set: real nodes need a sandbox", cgroup.Env)
	}
	cfg := realnode.Config{
		Node: e.Name, Dir: e.Dir, Kube: edge.Binary("kube"), Kubeconfig: kubeconfig,
		ClientCA: c.pki.path("ca.crt"), Cert: c.pki.path(serving + ".crt"), Key: c.pki.path(serving + ".key"),
		IPs: []string{e.IP.String(), e.IP6.String()}, PodCIDRs: []string{e.PodCIDR.String(), e.PodCIDR6.String()},
		ClusterDNS: edge.NodeDNS[:1], Domain: "cluster.local", Nameserver: netlab.CloudIP.String(),
		Images: slices.Concat(c.images, []string{c.standIns()}), Cgroup: lab + "/" + e.Name,
	}
	path, err := cfg.Write()
	if err != nil {
		return err
	}
	node := &Node{Node: e, Real: true, config: path, cgroup: cfg.Cgroup, c: c}
	c.Nodes[e.Name] = node
	return node.boot()
}

// register makes the Node beforehand, as a cloud's controller might: a kubelet
// may neither choose its podCIDRs nor, in every cluster, its labels.
func (c *Cluster) register(ctx context.Context, e *edge.Node) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: e.Name, Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{PodCIDR: e.PodCIDR.String(), PodCIDRs: []string{e.PodCIDR.String(), e.PodCIDR6.String()}},
	}
	if !slices.Contains(c.cfg.Unlabelled, e.Name) {
		node.Labels["unit"] = e.Unit.Name
	}
	_, err := wait.For(ctx, "the API server to take node "+e.Name, func() error {
		_, err := c.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	return err
}

// boot starts a real node, for the first time or after it was killed; what was
// on its disk is there.
func (n *Node) boot() (err error) {
	if err := n.RemoveCgroup(); err != nil {
		return err
	}
	if err := cgroup.Make(n.cgroup); err != nil {
		return fmt.Errorf("make control groups of %s: %w", n.Name, err)
	}
	n.Kubelet, err = edge.StartWith(n.NS, realnode.Attr(), "machine "+n.Name, filepath.Join(edge.Root(), "bin", "lab-worker"), "machine", n.config)
	return err
}

// RemoveCgroup removes what a real node that was killed leaves: its control
// groups.
func (n *Node) RemoveCgroup() error { return cgroup.Remove(n.cgroup) }

// Cgroup names a real node's control group.
func (n *Node) Cgroup() string { return n.cgroup }

// deployed are the workloads of deploy/, by their label, that run on every
// node; the controller has two replicas.
var deployed = []string{"gridmesh-agent", "gridmesh-envoy", "gridmesh-dns"}

// Deploy applies deploy/ and waits until all of it is ready: as it is, or with
// more arguments of the agent.
func (c *Cluster) Deploy(ctx context.Context, args ...string) error {
	manifests, err := c.withArgs(args)
	if err != nil {
		return err
	}
	if out, err := c.Kubectl("apply", "-k", manifests); err != nil {
		return fmt.Errorf("apply deploy/: %w: %s", err, out)
	}
	for _, name := range deployed {
		if _, err := c.WaitPods(ctx, "gridmesh", "app.kubernetes.io/name="+name, len(c.Nodes)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	_, err = c.WaitPods(ctx, "gridmesh", "app.kubernetes.io/name=gridmesh-controller", 2)
	return err
}

// withArgs is the folder of deploy/, or of a kustomization over it that adds
// arguments to the agent's, as who installs it would write one.
func (c *Cluster) withArgs(args []string) (string, error) {
	deploy := filepath.Join(edge.Root(), "deploy")
	if len(args) == 0 {
		return deploy, nil
	}
	dir := filepath.Join(c.dir, "deploy")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	base, err := filepath.Rel(dir, deploy)
	if err != nil {
		return "", err
	}
	var patch []map[string]string
	for _, arg := range args {
		patch = append(patch, map[string]string{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": arg})
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": []string{base},
		"patches": []map[string]any{{"target": map[string]string{"kind": "DaemonSet", "name": "gridmesh-agent"}, "patch": string(text)}},
	})
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), data, 0o644)
}

// PodProcesses are the processes of a pod's containers on a real node whose
// program has a name, by their numbers here; of any pod for uid "".
func (n *Node) PodProcesses(uid, program string) (pids []int, err error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, group := range groups {
		data, err := os.ReadFile(group)
		if err != nil || !inPod(string(data), n.cgroup, uid) {
			continue
		}
		name, err := os.ReadFile(filepath.Join(filepath.Dir(group), "comm"))
		if err != nil || strings.TrimSpace(string(name)) != program {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(group)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, err
}

// inPod reports whether the control groups of a process are a pod's of a node.
func inPod(groups, node, uid string) bool {
	pod := "/pod"
	if uid != "" {
		pod += uid + "/"
	}
	return strings.Contains(groups, "/"+node+"/") && strings.Contains(groups, pod)
}

// AgentSocket is where the agent of a node reports, whether it runs in a pod of
// a real node or beside it.
func (n *Node) AgentSocket() string {
	if n.Real {
		return filepath.Join(n.Dir, realnode.GridmeshDir, "agent.sock")
	}
	return filepath.Join(n.Dir, "agent.sock")
}

// ServesByEnvoy returns nil once the kernel serves no more for a node's Envoy: it does not
// know who is dead. An agent that has just begun does not say that it does: it has not asked.
func (n *Node) ServesByEnvoy() error {
	out, err := n.Run("status", "--status-socket", n.AgentSocket(), "-o", "json")
	if err != nil {
		return fmt.Errorf("status of %s: %w\n%s", n.Name, err, out)
	}
	var status struct {
		EnvoyAbsent bool
		Envoys      []struct{ Since time.Time }
	}
	switch err := json.Unmarshal(out, &status); {
	case err != nil:
		return fmt.Errorf("status of %s: %w\n%s", n.Name, err, out)
	case status.EnvoyAbsent:
		return fmt.Errorf("the kernel serves for Envoy on %s", n.Name)
	case len(status.Envoys) == 0 || time.Since(status.Envoys[0].Since) < asked:
		return fmt.Errorf("the agent of %s may not have asked Envoy yet: %+v", n.Name, status.Envoys)
	}
	return nil
}

// asked is within which time an agent has asked an Envoy whether it serves, with time to spare.
const asked = 5 * time.Second

// StateFile is the last good state of a node's agent.
func (n *Node) StateFile() string {
	if n.Real {
		return filepath.Join(n.Dir, "lib/gridmesh/state")
	}
	return filepath.Join(n.Dir, edge.AgentState)
}
