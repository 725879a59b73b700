// Package datapath tests the promises of a node's traffic with real packets:
// namespaces as nodes, the real Envoy, the real agent on a directory of
// manifests. No Kubernetes is needed; the promises against a real API server
// are tested in test/kubernetes.
package datapath
