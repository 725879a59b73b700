// Package kubeproxy holds the decision about Services without topologyKeys
// against kube-proxy's own code: over random histories both are told the same
// objects, and have to name the same endpoints for every frontend. It is a module
// of its own, for Kubernetes itself is no library that the product may need.
package kubeproxy
