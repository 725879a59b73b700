package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Join starts the kubelet of a node that Config.Later names, and waits until
// all nodes are ready.
func (c *Cluster) Join(ctx context.Context, name string) error {
	if err := c.addNode(ctx, c.Lab.Node(name)); err != nil {
		return err
	}
	return c.WaitNodes(ctx)
}

// Part takes a node that has joined out of the cluster, with its pods. What
// they wrote in its network stays there.
func (c *Cluster) Part(ctx context.Context, name string) error {
	n := c.Nodes[name]
	delete(c.Nodes, name) // nobody starts a pod there any more once the Node is gone
	if err := c.Kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if out, err := c.Kubectl("delete", "pods", "-A", "--field-selector", "spec.nodeName="+name, "--force"); err != nil {
		return fmt.Errorf("delete the pods of %s: %w: %s", name, err, out)
	}
	n.Kubelet.Kill()
	return nil
}
