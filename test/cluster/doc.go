// Package cluster is a whole Kubernetes cluster on one machine, for tests and
// demonstrations: a real etcd, kube-apiserver, controller-manager and
// scheduler in a cloud, and nodes in units behind links that can be cut.
//
// It lives in one set of namespaces (package sandbox), its network is package
// netlab's, its nodes run package kubelet's stand-in or the real kubelet and
// containerd (package realnode) and, where asked for, gridmesh-agent and Envoy
// (package edge) or the real kube-proxy.
package cluster
