// Package real tests deploy/ as it is on nodes with the real kubelet and
// containerd, whose images behave as the published ones. It has a cluster of
// its own, for what deploy/ says goes to every node.
package real
