// Package kubelet is a small stand-in for the kubelet, for test clusters on
// one machine: it registers a node, renews its lease, and runs every pod bound
// to it as processes, each pod in a network namespace of its own with a real
// pod IP, each container in a file system of its own.
//
// An image is not pulled but looked up in a map from name to command. What a
// pod asks for and the stand-in does not do is reported in the pod's status
// (condition "Honoured"), never ignored silently.
package kubelet
